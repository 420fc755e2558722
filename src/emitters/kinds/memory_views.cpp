#include "emitters/kinds/memory_views.h"

#include <algorithm>

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

/// A slice is looked through that leaves no more of a dimension than one of so many parts: a dimension's filling
/// (library/padded_products.h). Of others, what reads it may have a copy made together with other copies.
constexpr int64_t kParts = 8, kMostParts = 9;

/// The strides of a reshape's result: dimensions are taken from both shapes until they have as many elements, and what
/// is merged has to lie as one dimension would.
std::optional<std::vector<int64_t>> reshaped(const std::vector<int64_t>& from, const std::vector<int64_t>& strides,
                                             const std::vector<int64_t>& to) {
  std::vector<int64_t> result(to.size(), 0);
  size_t next = 0;
  for (size_t i = 0; i < to.size();) {
    if (to[i] == 1) {
      ++i;
      continue;
    }
    while (next < from.size() && from[next] == 1) ++next;
    size_t end_from = next + 1, end_to = i + 1;
    int64_t elements_from = from[next], elements_to = to[i];
    while (elements_from != elements_to) {
      if (elements_from < elements_to) {
        elements_from *= from[end_from++];
      } else {
        elements_to *= to[end_to++];
      }
    }
    std::vector<int64_t> merged;
    for (size_t d = next; d < end_from; ++d) merged.push_back(static_cast<int64_t>(d));
    const std::optional<int64_t> inner = merged_stride(merged, from, strides);
    if (!inner) return std::nullopt;
    int64_t stride = *inner;
    for (size_t d = end_to; d-- > i;) {
      result[d] = stride;
      stride *= to[d];
    }
    next = end_from;
    i = end_to;
  }
  return result;
}

/// The view of what an operator makes of one of its operand's views.
std::optional<std::vector<int64_t>> through(const hlo::Computation& computation, const Instruction& it,
                                            const std::vector<int64_t>& strides) {
  const hlo::Shape& from = computation.operand_shape(it, 0);
  std::vector<int64_t> result(it.shape.dims.size(), 0);
  switch (it.opcode) {
    case Opcode::Copy:
      return strides;
    case Opcode::Transpose:
      for (size_t i = 0; i < result.size(); ++i) result[i] = strides[static_cast<size_t>(it.dimensions()[i])];
      return result;
    case Opcode::Broadcast:
      if (from.element_count() == 1) return std::nullopt;
      for (size_t i = 0; i < strides.size(); ++i) result[static_cast<size_t>(it.dimensions()[i])] = strides[i];
      return result;
    case Opcode::Bitcast:
      if (!from.has_default_layout() || !it.shape.has_default_layout() || from.type != it.shape.type)
        return std::nullopt;
      return reshaped(from.dims, strides, it.shape.dims);
    case Opcode::Reshape:
      return reshaped(from.dims, strides, it.shape.dims);
    case Opcode::Slice: {
      const auto& a = it.as<hlo::SliceAttributes>();
      bool begins = true;
      for (size_t d = 0; d < strides.size(); ++d) {
        begins = begins && a.starts[d] == 0 && a.strides[d] == 1 && kMostParts * a.limits[d] >= kParts * from.dims[d];
      }
      return begins ? std::optional(strides) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

/// The operand at whose places an operator's elements are computed; -1 where there is none.
InstructionId operand_at_its_places(const hlo::Computation& computation, const Instruction& it, Through through) {
  if (through == Through::Views) return it.opcode == Opcode::Convert ? it.operands[0] : -1;
  if (!hlo::is_elementwise(it.opcode)) return -1;
  for (const InstructionId operand : it.operands) {
    const Opcode opcode = computation[operand].opcode;
    const bool repeats = opcode == Opcode::Broadcast || opcode == Opcode::Constant || opcode == Opcode::Iota;
    if (!repeats && computation[operand].shape.rank() == it.shape.rank()) return operand;
  }
  return -1;
}

bool is_followed(const hlo::Computation& computation, const Instruction& it, Through through) {
  if (through == Through::Elements) return it.opcode == Opcode::Transpose;
  return it.operands.size() == 1 && it.shape.is_array() && computation.operand_shape(it, 0).is_array();
}

}  // namespace

MemoryView source_in_memory(const hlo::Computation& computation, InstructionId id, Through follow) {
  const Instruction& it = computation[id];
  if (const InstructionId operand = operand_at_its_places(computation, it, follow); operand >= 0)
    return source_in_memory(computation, operand, follow);
  if (is_followed(computation, it, follow)) {
    const MemoryView before = source_in_memory(computation, it.operands[0], follow);
    if (auto strides = through(computation, it, before.strides)) return {before.memory, *std::move(strides)};
  }
  return {id, hlo::memory_strides(it.shape)};
}

std::vector<int64_t> order_in_memory(const hlo::Computation& computation, InstructionId id, Through follow) {
  const hlo::Shape& shape = computation[id].shape;
  const std::vector<int64_t> own = hlo::memory_strides(shape);
  const std::vector<int64_t> strides = source_in_memory(computation, id, follow).strides;
  std::vector<int64_t> order;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    if (shape.dim(d) != 1) order.push_back(d);
  }
  const auto descending_by = [&](const std::vector<int64_t>& keys) {
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return keys[static_cast<size_t>(a)] > keys[static_cast<size_t>(b)]; });
  };
  descending_by(own);
  std::vector<int64_t> keys = strides;
  int64_t within = 0;
  for (size_t i = order.size(); i-- > 0;) {
    int64_t& key = keys[static_cast<size_t>(order[i])];
    if (key == 0) key = within;
    within = std::max(within, key);
  }
  descending_by(keys);
  return order;
}

std::optional<int64_t> merged_stride(std::span<const int64_t> dimensions, const std::vector<int64_t>& sizes,
                                     const std::vector<int64_t>& strides) {
  std::optional<int64_t> inner;
  int64_t expected = 0;
  for (size_t i = dimensions.size(); i-- > 0;) {
    const auto d = static_cast<size_t>(dimensions[i]);
    if (sizes[d] == 1) continue;
    if (!inner) {
      inner = strides[d];
    } else if (strides[d] != expected) {
      return std::nullopt;
    }
    expected = strides[d] * sizes[d];
  }
  return inner.value_or(0);
}

namespace {

/// Whether an array that is sliced lies in memory as a whole, whoever reads it.
bool lies_in_memory(const hlo::Computation& computation, const Instruction& it) {
  if (it.opcode == Opcode::GetTupleElement) return computation[it.operands[0]].opcode != Opcode::Tuple;
  return it.opcode == Opcode::Parameter || it.opcode == Opcode::Dot;
}

/// A slice of a view, wherever it begins.
MemoryView sliced(const MemoryView& of, const hlo::SliceAttributes& slice) {
  MemoryView made = of;
  made.inside = true;
  for (size_t d = 0; d < of.strides.size(); ++d) {
    made.offset += slice.starts[d] * of.strides[d];
    made.strides[d] *= slice.strides[d];
  }
  return made;
}

}  // namespace

std::vector<MemoryView> memory_views(const hlo::Computation& computation, InstructionId id, Slices slices) {
  const Instruction& it = computation[id];
  std::vector<MemoryView> views;
  if (it.operands.size() == 1 && it.shape.is_array() && it.shape.element_count() > 0) {
    switch (it.opcode) {
      case Opcode::Copy:
      case Opcode::Transpose:
      case Opcode::Broadcast:
      case Opcode::Bitcast:
      case Opcode::Reshape:
      case Opcode::Slice:
        for (const MemoryView& view : memory_views(computation, it.operands[0], slices)) {
          if (auto strides = through(computation, it, view.strides)) {
            views.push_back({view.memory, std::move(*strides), view.offset, view.inside});
          } else if (slices == Slices::InMemory && it.opcode == Opcode::Slice &&
                     lies_in_memory(computation, computation[view.memory])) {
            views.push_back(sliced(view, it.as<hlo::SliceAttributes>()));
          }
        }
        break;
      default:
        break;
    }
  }
  views.push_back({id, hlo::memory_strides(it.shape)});
  return views;
}

}  // namespace strata::emitters
