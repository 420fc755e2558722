#include "hlo/combiner_operator.h"

#include <algorithm>
#include <limits>

#include "hlo/compute.h"

namespace strata::hlo {
namespace {

Literal scalar_of(ElementType type, double value) {
  return visit_accumulator_type(type, [&](auto zero) {
    using T = decltype(zero);
    return literal_of<T>(array_shape(type, {}), {T(value)});
  });
}

}  // namespace

std::optional<Literal> neutral_value(Opcode opcode, ElementType type) {
  constexpr double kMost = std::numeric_limits<double>::infinity();
  switch (opcode) {
    case Opcode::Add:
    case Opcode::Or:
    case Opcode::Xor:
      return scalar_of(type, 0);
    case Opcode::Multiply:
      return scalar_of(type, 1);
    case Opcode::And:
      if (kind(type) == TypeKind::Pred) return scalar_of(type, 1);
      return kind(type) == TypeKind::Signed ? literal_of<int64_t>(array_shape(type, {}), {-1})
                                            : literal_of<uint64_t>(array_shape(type, {}), {~uint64_t{0}});
    case Opcode::Minimum:
    case Opcode::Maximum: {
      if (kind(type) != TypeKind::Float || bit_width(type) < 16) return std::nullopt;
      return scalar_of(type, opcode == Opcode::Minimum ? kMost : -kMost);
    }
    default:
      return std::nullopt;
  }
}

std::optional<Opcode> only_operator(const Computation& combiner) {
  const Instruction& root = combiner.root_instruction();
  if (combiner.parameters.size() != 2 || root.operands.size() != 2) return std::nullopt;
  const bool both = std::is_permutation(root.operands.begin(), root.operands.end(), combiner.parameters.begin());
  return both ? std::optional(root.opcode) : std::nullopt;
}

}  // namespace strata::hlo
