#include "hlo/expand_row_scatters.h"

#include <fmt/format.h>

#include <algorithm>

#include "hlo/replace_instructions.h"
#include "hlo/scatter_places.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

/// Whether nothing keeps an array in memory before its readers: it is a scalar everywhere, or computed elementwise.
bool is_computed(const Computation& computation, const Instruction& array) {
  if (array.opcode == Opcode::Broadcast) return computation.operand_shape(array, 0).rank() == 0;
  return is_elementwise(array.opcode);
}

/// Whether updates, without dimensions of one element, are the operand's dimensions but `row` in their order.
bool has_an_update_a_row(const ScatterAttributes& how, const Shape& operand, const Shape& indices, const Shape& updates,
                         int64_t row) {
  std::vector<int64_t> window;  // the operand's dimensions
  for (int64_t d = 0; d < operand.rank(); ++d) {
    const auto& batching = how.input_batching_dims;
    if (d != row && std::find(batching.begin(), batching.end(), d) == batching.end()) window.push_back(d);
  }
  int64_t last = -1, index = 0;
  size_t in_window = 0;
  for (int64_t d = 0; d < updates.rank(); ++d) {
    const auto& of_window = how.update_window_dims;
    int64_t place = -1;
    if (std::find(of_window.begin(), of_window.end(), d) != of_window.end()) {
      place = window[in_window++];
      if (updates.dim(d) != operand.dim(place)) return false;
    } else {
      if (index == how.index_vector_dim) ++index;
      const auto& batching = how.scatter_indices_batching_dims;
      const auto found = std::find(batching.begin(), batching.end(), index++);
      if (found != batching.end()) place = how.input_batching_dims[static_cast<size_t>(found - batching.begin())];
    }
    if (updates.dim(d) == 1) continue;
    if (place <= last) return false;
    last = place;
  }
  return indices.rank() > 0 && updates.element_count() == operand.element_count() / operand.dim(row);
}

bool is_row_scatter(const Computation& computation, const Instruction& it) {
  if (it.opcode != Opcode::Scatter || it.operands.size() != 3 || !it.shape.is_array()) return false;
  const auto& how = it.as<ScatterAttributes>();
  const Shape& operand = computation.operand_shape(it, 0);
  const bool one_dimension =
      how.inserted_window_dims.size() == 1 && how.scatter_dims_to_operand_dims == how.inserted_window_dims;
  if (!one_dimension || operand.element_count() == 0 || !is_computed(computation, computation[it.operands[0]]))
    return false;
  for (const InstructionId id : it.operands) {
    if (!computation[id].shape.has_default_layout()) return false;
  }
  // The batch in the same order on both sides, so that indices are a reshape of it.
  const bool in_order =
      std::is_sorted(how.input_batching_dims.begin(), how.input_batching_dims.end()) &&
      std::is_sorted(how.scatter_indices_batching_dims.begin(), how.scatter_indices_batching_dims.end());
  return in_order && it.shape.has_default_layout() &&
         has_an_update_a_row(how, operand, computation.operand_shape(it, 1), computation.operand_shape(it, 2),
                             how.inserted_window_dims[0]);
}

Replacement replacement(const Module& module, const Computation& computation, const Instruction& it) {
  const auto& how = it.as<ScatterAttributes>();
  const Shape& whole = it.shape;
  const int64_t row = how.inserted_window_dims[0];
  const Shape& indices = computation.operand_shape(it, 1);
  const Shape& updates = computation.operand_shape(it, 2);
  // Wide enough for all indices, and for those of elements: an index that is too large must not become a smaller one.
  const bool narrow = (bit_width(indices.type) < 32 || indices.type == ElementType::S32) && whole.dim(row) < 1LL << 31;
  const std::string number = narrow ? "s32" : "s64";
  std::vector<int64_t> batch, others, of_update;
  for (const int64_t d : how.input_batching_dims) batch.push_back(whole.dim(d));
  for (int64_t d = 0; d < whole.rank(); ++d) {
    if (d == row) continue;
    others.push_back(d);
    of_update.push_back(whole.dim(d));
  }
  const std::string of_batch = fmt::format("[{}]", fmt::join(batch, ","));
  const std::string of_all = fmt::format("[{}]", fmt::join(whole.dims, ","));
  const std::string_view type = name(whole.type);
  std::string body = fmt::format("  a = {} parameter(0)\n  i = {} parameter(1)\n  u = {} parameter(2)\n",
                                 to_string(whole), to_string(indices), to_string(updates));
  body += fmt::format("  j = {}{} reshape(i)\n  k = {}{} convert(j)\n  v = {}[{}] reshape(u)\n", name(indices.type),
                      of_batch, number, of_batch, type, fmt::join(of_update, ","));
  body += fmt::format("  ks = {}{} broadcast(k), dimensions={{{}}}\n  b = {}{} broadcast(v), dimensions={{{}}}\n",
                      number, of_all, fmt::join(how.input_batching_dims, ","), type, of_all, fmt::join(others, ","));
  body += fmt::format("  place = {}{} iota(), iota_dimension={}\n  hit = pred{} compare(ks, place), direction=EQ\n",
                      number, of_all, row, of_all);
  body += fmt::format("  both = {}{} {}\n  ROOT r = {} select(hit, both, a)\n", type, of_all,
                      scatter_combination(module[it.called[0]]), to_string(whole));
  return {fmt::format("HloModule m\nscatter {{\n  a = {0}[] parameter(0)\n  b = {0}[] parameter(1)\n  ROOT r = {0}[] "
                      "copy(a)\n}}\nENTRY row-scatter {{\n{1}}}\n",
                      type, body),
          it.operands,
          {{"scatter", it.called[0]}}};
}

}  // namespace

bool has_row_scatters(const Module& module) {
  return std::any_of(module.computations.begin(), module.computations.end(), [](const Computation& computation) {
    return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                       [&](const Instruction& it) { return is_row_scatter(computation, it); });
  });
}

Result<Module> expand_row_scatters(const Module& module) {
  return replace_instructions(module,
                              [&](const Computation& computation, const Instruction& it) -> std::optional<Replacement> {
                                if (!is_row_scatter(computation, it)) return std::nullopt;
                                return replacement(module, computation, it);
                              });
}

}  // namespace strata::hlo
