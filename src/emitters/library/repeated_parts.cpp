#include "emitters/library/repeated_parts.h"

#include <algorithm>
#include <optional>

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using Parts = RepeatedParts::Parts;

/// Operators that are looked through one after the other. Longer chains end as if nothing were known of what is before.
constexpr int kMostOperators = 64;

/// What two parts have in common, if it is a part of both.
std::optional<DimensionPart> common(DimensionPart a, DimensionPart b) {
  const DimensionPart both{std::max(a.low, b.low), std::min(a.high, b.high)};
  if (both.low >= both.high || both.high % both.low != 0) return std::nullopt;
  for (const DimensionPart& one : {a, b}) {
    if (both.low % one.low != 0 || one.high % both.high != 0) return std::nullopt;
  }
  return both;
}

Parts common(const Parts& a, const Parts& b) {
  Parts result;
  for (const DimensionPart& one : a) {
    for (const DimensionPart& other : b) {
      if (const auto both = common(one, other)) result.push_back(*both);
    }
  }
  std::ranges::sort(result);
  return result;
}

DimensionPart scaled(DimensionPart part, int64_t factor) { return {part.low * factor, part.high * factor}; }

bool has(const std::vector<int64_t>& dimensions, int64_t d) {
  return std::ranges::find(dimensions, d) != dimensions.end();
}

/// Whether an operator leaves a dimension of its first operand as it is.
bool keeps(const hlo::Computation& computation, const Instruction& it, int64_t d) {
  const auto at = static_cast<size_t>(d);
  switch (it.opcode) {
    case Opcode::Slice:
    case Opcode::DynamicSlice:
      // A whole dimension begins at 0, which a dynamic slice is clamped to.
      return it.shape.dims[at] == computation.operand_shape(it, 0).dims[at];
    case Opcode::Pad: {
      const auto& a = it.as<hlo::PadAttributes>();
      return a.low[at] == 0 && a.high[at] == 0 && a.interior[at] == 0;
    }
    case Opcode::Reverse:
      return !has(it.dimensions(), d);
    default:
      return false;
  }
}

}  // namespace

const Parts& RepeatedParts::find(InstructionId id, int64_t dimension, int depth) {
  const auto known = found_.find({id, dimension});
  if (known != found_.end()) return known->second;
  const Instruction& it = computation_[id];
  Parts made;
  const bool is_plain = it.shape.is_array() && it.shape.has_default_layout() && it.shape.element_count() > 0;
  if (is_plain && it.shape.dim(dimension) > 1 && depth < kMostOperators) made = parts(it, dimension, depth + 1);
  return found_[{id, dimension}] = std::move(made);
}

Parts RepeatedParts::parts(const Instruction& it, int64_t dimension, int depth) {
  const Parts all{{1, it.shape.dim(dimension)}};
  if (hlo::is_elementwise(it.opcode)) return of_all(it, dimension, depth);
  switch (it.opcode) {
    case Opcode::Broadcast: {
      const auto place = std::ranges::find(it.dimensions(), dimension);
      return place == it.dimensions().end() ? all : find(it.operands[0], place - it.dimensions().begin(), depth);
    }
    case Opcode::Iota:
      return it.dimensions()[0] == dimension ? Parts{} : all;
    case Opcode::Transpose:
      return find(it.operands[0], it.dimensions()[static_cast<size_t>(dimension)], depth);
    case Opcode::Copy:
      return find(it.operands[0], dimension, depth);
    case Opcode::Reshape:
      return of_reshape(it, dimension, depth);
    case Opcode::Concatenate:
      return of_concatenation(it, dimension, depth);
    default:
      return keeps(computation_, it, dimension) ? find(it.operands[0], dimension, depth) : Parts{};
  }
}

Parts RepeatedParts::of_all(const Instruction& it, int64_t dimension, int depth) {
  Parts all{{1, it.shape.dim(dimension)}};
  for (const InstructionId operand : it.operands) {
    if (all.empty()) break;
    if (computation_[operand].shape.rank() > 0) all = common(all, find(operand, dimension, depth));
  }
  return all;
}

Parts RepeatedParts::of_concatenation(const Instruction& it, int64_t dimension, int depth) {
  if (it.dimensions()[0] != dimension) return of_all(it, dimension, depth);
  const InstructionId first = it.operands[0];
  if (std::ranges::any_of(it.operands, [&](InstructionId id) { return id != first; })) return {};
  Parts parts = find(first, dimension, depth);
  if (it.operands.size() > 1) parts.push_back({computation_[first].shape.dim(dimension), it.shape.dim(dimension)});
  return parts;
}

Parts RepeatedParts::of_reshape(const Instruction& it, int64_t dimension, int depth) {
  const std::vector<int64_t>& from = computation_.operand_shape(it, 0).dims;
  const std::vector<int64_t> inside = hlo::row_major_strides(from);
  const int64_t own = hlo::row_major_strides(it.shape.dims)[static_cast<size_t>(dimension)];
  const DimensionPart whole{own, own * it.shape.dim(dimension)};
  Parts result;
  for (size_t d = from.size(); d-- > 0;) {
    for (const DimensionPart& part : find(it.operands[0], static_cast<int64_t>(d), depth)) {
      if (const auto both = common(scaled(part, inside[d]), whole))
        result.push_back({both->low / own, both->high / own});
    }
  }
  return result;
}

std::vector<std::pair<int64_t, DimensionPart>> parts_before_reshape(const std::vector<int64_t>& from,
                                                                    const std::vector<int64_t>& to, int64_t dimension,
                                                                    DimensionPart part) {
  const std::vector<int64_t> inside = hlo::row_major_strides(from);
  const DimensionPart wanted = scaled(part, hlo::row_major_strides(to)[static_cast<size_t>(dimension)]);
  std::vector<std::pair<int64_t, DimensionPart>> result;
  int64_t elements = 1;
  for (size_t d = 0; d < from.size(); ++d) {
    const auto both = common(wanted, {inside[d], inside[d] * from[d]});
    if (!both) continue;
    result.emplace_back(static_cast<int64_t>(d), DimensionPart{both->low / inside[d], both->high / inside[d]});
    elements *= both->size();
  }
  return elements == part.size() ? result : decltype(result){};
}

}  // namespace strata::emitters
