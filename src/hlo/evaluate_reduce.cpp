#include <algorithm>
#include <numeric>

#include "hlo/evaluate_parts.h"
#include "hlo/fold.h"
#include "hlo/scatter_places.h"
#include "hlo/strided.h"

namespace strata::hlo {
namespace {

using Integers = std::vector<int64_t>;

/// An array of the shape with one value everywhere.
Literal filled(const Shape& shape, const Literal& value) {
  Literal result(shape);
  copy_strided(shape.dims, result.mutable_bytes(), {0, row_major_strides(shape.dims)}, value.bytes(),
               {0, Integers(shape.dims.size(), 0)}, static_cast<size_t>(byte_width(shape.type)));
  return result;
}

/// The inputs of a variadic operator and its accumulators, which begin with the initial values.
struct Folding {
  std::vector<Literal> inputs, accumulators;
};

Folding folding_of(const Instruction& instruction, const std::vector<Literal>& operands) {
  const size_t count = operands.size() / 2;
  Folding folding;
  folding.inputs.assign(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(count));
  const std::vector<Shape> shapes = result_shapes(instruction.shape);
  for (size_t i = 0; i < count; ++i) folding.accumulators.push_back(filled(shapes[i], operands[count + i]));
  return folding;
}

/// Where element `place` of a window at output `index` lies in the operand, or false if in padding or between elements.
bool window_place(const std::vector<WindowDimension>& window, const Integers& dims, const Integers& strides,
                  const Integers& index, const Integers& place, int64_t& offset) {
  offset = 0;
  for (size_t d = 0; d < window.size(); ++d) {
    const WindowDimension& w = window[d];
    const int64_t dilated = index[d] * w.stride + place[d] * w.rhs_dilate - w.pad_low;
    if (dilated < 0 || dilated % w.lhs_dilate != 0 || dilated / w.lhs_dilate >= dims[d]) return false;
    offset += dilated / w.lhs_dilate * strides[d];
  }
  return true;
}

Integers window_sizes(const std::vector<WindowDimension>& window) {
  Integers sizes;
  for (const WindowDimension& w : window) sizes.push_back(w.size);
  return sizes;
}

}  // namespace

Result<Literal> evaluate_map(const Instruction& instruction, const std::vector<Literal>& operands,
                             const ScalarFunction& function) {
  STRATA_TRY(const std::vector<Literal> results, function(operands, instruction.shape.element_count()));
  return results[0].with_shape(instruction.shape);
}

Result<Literal> evaluate_reduce(const Instruction& instruction, const std::vector<Literal>& operands,
                                const ScalarFunction& function) {
  const Folding folding = folding_of(instruction, operands);
  Folder folder(function, folding.accumulators, folding.inputs);
  const Integers& dims = folding.inputs[0].shape().dims;
  const Integers strides = row_major_strides(dims);
  Integers kept_dims, kept_strides, reduced_dims, reduced_strides;
  for (size_t d = 0; d < dims.size(); ++d) {
    const Integers& reduced = instruction.dimensions();
    const bool is_reduced = std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(d)) != reduced.end();
    (is_reduced ? reduced_dims : kept_dims).push_back(dims[d]);
    (is_reduced ? reduced_strides : kept_strides).push_back(strides[d]);
  }
  if (!is_empty(dims)) {
    // One step for each reduced index, in row-major order: all results take one more element.
    Integers to, bases;
    Integers index(kept_dims.size());
    do {
      to.push_back(static_cast<int64_t>(to.size()));
      bases.push_back(dot_product(index, kept_strides));
    } while (next_index(index, kept_dims));
    Integers from(bases.size());
    Integers step(reduced_dims.size());
    do {
      const int64_t offset = dot_product(step, reduced_strides);
      for (size_t i = 0; i < bases.size(); ++i) from[i] = bases[i] + offset;
      STRATA_CHECK(folder.combine(to, from));
    } while (next_index(step, reduced_dims));
  }
  return one_or_tuple(folder.finish());
}

Result<Literal> evaluate_reduce_window(const Instruction& instruction, const std::vector<Literal>& operands,
                                       const ScalarFunction& function) {
  const Folding folding = folding_of(instruction, operands);
  Folder folder(function, folding.accumulators, folding.inputs);
  const auto& window = instruction.as<WindowAttributes>().window;
  const Integers& dims = folding.inputs[0].shape().dims;
  const Integers strides = row_major_strides(dims);
  const Integers result_dims = result_shapes(instruction.shape)[0].dims;
  const Integers sizes = window_sizes(window);
  if (!is_empty(result_dims) && !is_empty(dims)) {
    Integers place(window.size());
    do {
      Integers to, from;
      Integers index(window.size());
      int64_t output = 0;
      do {
        int64_t offset = 0;
        if (window_place(window, dims, strides, index, place, offset)) {
          to.push_back(output);
          from.push_back(offset);
        }
        ++output;
      } while (next_index(index, result_dims));
      STRATA_CHECK(folder.combine(to, from));
    } while (next_index(place, sizes));
  }
  return one_or_tuple(folder.finish());
}

Result<Literal> evaluate_select_and_scatter(const Instruction& instruction, const std::vector<Literal>& operands,
                                            const ScalarFunction& select, const ScalarFunction& scatter) {
  const Literal& operand = operands[0];
  const Literal& source = operands[1];
  const auto& window = instruction.as<WindowAttributes>().window;
  const Integers& dims = operand.shape().dims;
  const Integers strides = row_major_strides(dims);
  const Integers sizes = window_sizes(window);
  // The place that each window has selected so far; -1 before its first element.
  Integers selected(static_cast<size_t>(source.size()), -1);
  if (!is_empty(source.shape().dims)) {
    Integers place(window.size());
    do {
      Integers windows, candidates, current;
      Integers index(window.size());
      size_t output = 0;
      do {
        int64_t offset = 0;
        if (window_place(window, dims, strides, index, place, offset)) {
          if (selected[output] < 0) {
            selected[output] = offset;
          } else {
            windows.push_back(static_cast<int64_t>(output));
            candidates.push_back(offset);
            current.push_back(selected[output]);
          }
        }
        ++output;
      } while (next_index(index, source.shape().dims));
      STRATA_TRY(const auto keeps,
                 select({pick(operand, current), pick(operand, candidates)}, static_cast<int64_t>(windows.size())));
      for (size_t i = 0; i < windows.size(); ++i) {
        if (keeps[0].bytes()[i] == std::byte{0}) selected[static_cast<size_t>(windows[i])] = candidates[i];
      }
    } while (next_index(place, sizes));
  }
  Integers to, from;
  for (size_t i = 0; i < selected.size(); ++i) {
    if (selected[i] < 0) continue;
    to.push_back(selected[i]);
    from.push_back(static_cast<int64_t>(i));
  }
  const std::vector<Literal> values{source};
  Folder folder(scatter, {filled(instruction.shape, operands[2])}, values);
  STRATA_CHECK(folder.combine(to, from));
  return one_or_tuple(folder.finish());
}

Result<Literal> evaluate_scatter(const Instruction& instruction, const std::vector<Literal>& operands,
                                 const ScalarFunction& function) {
  const size_t count = operands.size() / 2;
  const std::vector<Literal> updates(operands.begin() + static_cast<std::ptrdiff_t>(count) + 1, operands.end());
  const ScatterPlaces places = scatter_places(instruction.as<ScatterAttributes>(), operands[count],
                                              operands[0].shape().dims, updates[0].shape().dims);
  std::vector<Literal> accumulators(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(count));
  Folder folder(function, std::move(accumulators), updates);
  STRATA_CHECK(folder.combine(places.to, places.from));
  return one_or_tuple(folder.finish());
}

}  // namespace strata::hlo
