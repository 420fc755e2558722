#include <algorithm>

#include "hlo/shape_rules.h"

namespace strata::hlo {
namespace {

Result<Shape> infer_broadcast(const RuleContext& context) {
  const Shape& operand = context.operand(0);
  const Shape& result = context.instruction.shape;
  const std::vector<int64_t>& dims = context.instruction.dimensions();
  if (static_cast<int64_t>(dims.size()) != operand.rank()) {
    return invalid("dimensions= has {} entries, and the operand {} dimensions", dims.size(), operand.rank());
  }
  STRATA_CHECK(check_dimensions(dims, result.rank(), "the dimension"));
  for (size_t d = 0; d < dims.size(); ++d) {
    if (operand.dims[d] != result.dim(dims[d])) {
      return invalid("dimension {} of the operand has size {}, and dimension {} of the result {}", d, operand.dims[d],
                     dims[d], result.dim(dims[d]));
    }
  }
  Shape shape = result;
  shape.type = operand.type;
  return shape;
}

Result<Shape> infer_concatenate(const RuleContext& context) {
  const std::vector<int64_t>& dims = context.instruction.dimensions();
  if (context.operand_count() == 0) return invalid("it needs an operand");
  Shape result = context.operand(0);
  if (dims.size() != 1) return invalid("it has one dimension");
  STRATA_CHECK(check_dimensions(dims, result.rank(), "the dimension"));
  const size_t d = static_cast<size_t>(dims[0]);
  for (size_t i = 1; i < context.operand_count(); ++i) {
    Shape operand = context.operand(i);
    const bool overflows =
        operand.rank() == result.rank() && __builtin_add_overflow(result.dims[d], operand.dims[d], &result.dims[d]);
    if (operand.rank() == result.rank()) operand.dims[d] = result.dims[d];
    if (overflows || !same_shape(operand, result)) {
      return invalid("operand {} is {}, which does not fit beside {}", i, to_string_without_layout(context.operand(i)),
                     to_string_without_layout(context.operand(0)));
    }
  }
  return result;
}

Result<void> check_start_indices(const RuleContext& context, size_t first) {
  const size_t rank = context.operand(0).dims.size();
  if (context.operand_count() != first + rank) {
    return invalid("it has {} start indices, and the operand {} dimensions", context.operand_count() - first, rank);
  }
  for (size_t i = first; i < context.operand_count(); ++i) {
    const Shape& index = context.operand(i);
    if (index.rank() != 0 || !is_integer(index.type)) {
      return invalid("the start index {} is {}, not an integer scalar", i - first, to_string_without_layout(index));
    }
  }
  return {};
}

Result<Shape> infer_dynamic_slice(const RuleContext& context) {
  if (context.operand_count() == 0) return invalid("it needs an operand");
  STRATA_CHECK(check_start_indices(context, 1));
  const Shape& operand = context.operand(0);
  const std::vector<int64_t>& sizes = context.instruction.as<DynamicSliceAttributes>().sizes;
  if (sizes.size() != operand.dims.size()) return invalid("dynamic_slice_sizes= has {} entries", sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 0 || sizes[d] > operand.dims[d]) {
      return invalid("slices of {} do not fit dimension {} of {}", sizes[d], d, to_string_without_layout(operand));
    }
  }
  return array_shape(operand.type, sizes);
}

Result<Shape> infer_dynamic_update_slice(const RuleContext& context) {
  if (context.operand_count() < 2) return invalid("it needs an operand and an update");
  STRATA_CHECK(check_start_indices(context, 2));
  const Shape& operand = context.operand(0);
  const Shape& update = context.operand(1);
  bool fits = operand.type == update.type && operand.rank() == update.rank();
  for (size_t d = 0; fits && d < operand.dims.size(); ++d) fits = update.dims[d] <= operand.dims[d];
  if (!fits) {
    return invalid("the update {} does not fit {}", to_string_without_layout(update),
                   to_string_without_layout(operand));
  }
  return operand;
}

Result<Shape> infer_gather(const RuleContext& context) {
  const auto& a = context.instruction.as<GatherAttributes>();
  const Shape& operand = context.operand(0);
  const Shape& indices = context.operand(1);
  if (!is_integer(indices.type)) return invalid("indices are {}", name(indices.type));
  const int64_t rank = operand.rank();
  if (a.index_vector_dim < 0 || a.index_vector_dim > indices.rank()) return invalid("index_vector_dim is outside");
  std::vector<int64_t> batch;
  for (int64_t d = 0; d < indices.rank(); ++d) {
    if (d != a.index_vector_dim) batch.push_back(indices.dim(d));
  }
  const int64_t vector_size = a.index_vector_dim == indices.rank() ? 1 : indices.dim(a.index_vector_dim);
  if (vector_size != static_cast<int64_t>(a.start_index_map.size())) {
    return invalid("index vectors have {} entries, and start_index_map {}", vector_size, a.start_index_map.size());
  }
  STRATA_CHECK(check_dimensions(a.start_index_map, rank, "start_index_map"));
  std::vector<int64_t> dropped = a.collapsed_slice_dims;
  dropped.insert(dropped.end(), a.operand_batching_dims.begin(), a.operand_batching_dims.end());
  STRATA_CHECK(check_dimensions(dropped, rank, "the collapsed or batching dimension"));
  STRATA_CHECK(check_dimensions(a.start_indices_batching_dims, indices.rank(), "start_indices_batching_dims"));
  if (a.operand_batching_dims.size() != a.start_indices_batching_dims.size()) {
    return invalid("operand_batching_dims and start_indices_batching_dims have different lengths");
  }
  for (size_t i = 0; i < a.operand_batching_dims.size(); ++i) {
    const int64_t d = a.start_indices_batching_dims[i];
    if (d == a.index_vector_dim || indices.dim(d) != operand.dim(a.operand_batching_dims[i])) {
      return invalid("batching dimension {} has another size in the indices", a.operand_batching_dims[i]);
    }
    if (std::find(a.start_index_map.begin(), a.start_index_map.end(), a.operand_batching_dims[i]) !=
        a.start_index_map.end()) {
      return invalid("batching dimension {} is in start_index_map", a.operand_batching_dims[i]);
    }
  }
  if (static_cast<int64_t>(a.slice_sizes.size()) != rank)
    return invalid("slice_sizes has {} entries", a.slice_sizes.size());
  std::vector<int64_t> window;
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t size = a.slice_sizes[static_cast<size_t>(d)];
    if (size < 0 || size > operand.dim(d)) return invalid("slices of {} do not fit dimension {}", size, d);
    const bool is_dropped = std::find(dropped.begin(), dropped.end(), d) != dropped.end();
    if (is_dropped && size > 1) return invalid("collapsed dimension {} has slices of {}", d, size);
    if (!is_dropped) window.push_back(size);
  }
  if (window.size() != a.offset_dims.size()) {
    return invalid("offset_dims has {} entries, and slices {} dimensions", a.offset_dims.size(), window.size());
  }
  std::vector<int64_t> dims(window.size() + batch.size());
  STRATA_CHECK(check_dimensions(a.offset_dims, static_cast<int64_t>(dims.size()), "offset_dims"));
  if (!std::is_sorted(a.offset_dims.begin(), a.offset_dims.end())) return invalid("offset_dims is not sorted");
  size_t next_window = 0;
  size_t next_batch = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool in_window = next_window < window.size() && a.offset_dims[next_window] == static_cast<int64_t>(d);
    dims[d] = in_window ? window[next_window++] : batch[next_batch++];
  }
  return array_shape(operand.type, dims);
}

Result<Shape> infer_pad(const RuleContext& context) {
  const auto& a = context.instruction.as<PadAttributes>();
  const Shape& operand = context.operand(0);
  if (!same_shape(context.operand(1), array_shape(operand.type, {}))) {
    return invalid("the padding value is {}, not {}[]", to_string_without_layout(context.operand(1)),
                   name(operand.type));
  }
  if (a.low.size() != operand.dims.size()) {
    return invalid("padding= has {} entries, and the operand {} dimensions", a.low.size(), operand.rank());
  }
  Shape result = operand;
  for (size_t d = 0; d < a.low.size(); ++d) {
    constexpr int64_t kLimit = int64_t{1} << 31;
    const bool small = std::abs(a.low[d]) < kLimit && std::abs(a.high[d]) < kLimit && a.interior[d] < kLimit &&
                       operand.dims[d] < kLimit;
    if (!small || a.interior[d] < 0) return invalid("the padding of dimension {} is out of range", d);
    const int64_t inside = operand.dims[d] == 0 ? 0 : (operand.dims[d] - 1) * (a.interior[d] + 1) + 1;
    result.dims[d] = inside + a.low[d] + a.high[d];
    if (result.dims[d] < 0) return invalid("padding makes dimension {} negative", d);
  }
  return result;
}

Result<Shape> infer_slice(const RuleContext& context) {
  const auto& a = context.instruction.as<SliceAttributes>();
  const Shape& operand = context.operand(0);
  if (a.starts.size() != operand.dims.size()) return invalid("slice= has {} entries", a.starts.size());
  Shape result = operand;
  for (size_t d = 0; d < a.starts.size(); ++d) {
    if (a.starts[d] < 0 || a.limits[d] < a.starts[d] || a.limits[d] > operand.dims[d] || a.strides[d] < 1) {
      return invalid("[{}:{}:{}] is no slice of dimension {} of {}", a.starts[d], a.limits[d], a.strides[d], d,
                     to_string_without_layout(operand));
    }
    result.dims[d] = (a.limits[d] - a.starts[d]) / a.strides[d] + ((a.limits[d] - a.starts[d]) % a.strides[d] != 0);
  }
  return result;
}

Result<Shape> infer_transpose(const RuleContext& context) {
  const Shape& operand = context.operand(0);
  const std::vector<int64_t>& dims = context.instruction.dimensions();
  if (static_cast<int64_t>(dims.size()) != operand.rank()) return invalid("dimensions= has {} entries", dims.size());
  STRATA_CHECK(check_dimensions(dims, operand.rank(), "the dimension"));
  std::vector<int64_t> sizes;
  for (int64_t d : dims) sizes.push_back(operand.dim(d));
  return array_shape(operand.type, sizes);
}

Result<Shape> infer_bitcast(const RuleContext& context) {
  const Shape& operand = context.operand(0);
  const Shape& result = context.instruction.shape;
  if (!result.is_array()) return invalid("it makes an array");
  const auto bits = [](const Shape& shape) {
    return shape.element_count() * (shape.type == ElementType::Pred ? 8 : bit_width(shape.type));
  };
  if (bits(operand) != bits(result)) {
    return invalid("{} and {} take different memory", to_string_without_layout(operand),
                   to_string_without_layout(result));
  }
  return result;
}

}  // namespace

Result<Shape> infer_movement(const RuleContext& context) {
  const Instruction& instruction = context.instruction;
  switch (instruction.opcode) {
    case Opcode::Bitcast:
      return infer_bitcast(context);
    case Opcode::Broadcast:
      return infer_broadcast(context);
    case Opcode::Concatenate:
      return infer_concatenate(context);
    case Opcode::DynamicSlice:
      return infer_dynamic_slice(context);
    case Opcode::DynamicUpdateSlice:
      return infer_dynamic_update_slice(context);
    case Opcode::Gather:
      return infer_gather(context);
    case Opcode::GetDimensionSize:
      if (instruction.dimensions().size() != 1) return invalid("it has one dimension");
      STRATA_CHECK(check_dimensions(instruction.dimensions(), context.operand(0).rank(), "the dimension"));
      return array_shape(ElementType::S32, {});
    case Opcode::Pad:
      return infer_pad(context);
    case Opcode::Reshape: {
      Shape result = instruction.shape;
      const Shape& operand = context.operand(0);
      if (!result.is_array() || result.element_count() != operand.element_count()) {
        return invalid("{} does not have the {} elements of {}", to_string_without_layout(result),
                       operand.element_count(), to_string_without_layout(operand));
      }
      result.type = operand.type;
      return result;
    }
    case Opcode::Reverse:
      STRATA_CHECK(check_dimensions(instruction.dimensions(), context.operand(0).rank(), "the dimension"));
      return context.operand(0);
    case Opcode::Slice:
      return infer_slice(context);
    case Opcode::Transpose:
      return infer_transpose(context);
    default:
      return context.operand(0);  // copy
  }
}

}  // namespace strata::hlo
