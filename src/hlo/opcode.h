// The operators of HLO, read from opcode.def.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace strata::hlo {

enum class Opcode : uint8_t {
#define HLO_OPCODE(enumerator, name, arity, family, attributes) enumerator,
#include "hlo/opcode.def"
#undef HLO_OPCODE
};

enum class Family : uint8_t {
  Leaf,           ///< no operands
  Unary,          ///< one result element from one operand element
  Binary,         ///< … from two
  Ternary,        ///< … from three, some of which may be scalars for the whole array
  Conversion,     ///< to another element type
  Movement,       ///< elements only move
  Contraction,    ///< sums of products
  Computing,      ///< calls a computation on scalars, for each element or for each pair that is combined
  LinearAlgebra,  ///< factors and solves whole matrices, transforms whole rows
  Normalisation,  ///< batch normalisation: sums over all dimensions but one, then elementwise
  Control,        ///< tuples, tokens, calls of computations on whole values
  Unsupported,    ///< parsed and printed only
};

/// As in HLO text: "add", "get-tuple-element".
std::string_view name(Opcode opcode);
Family family(Opcode opcode);
/// The number of operands, or -1 where it varies.
int arity(Opcode opcode);
/// None where HLO has no such operator.
std::optional<Opcode> opcode_named(std::string_view name);
/// In the table's order.
const std::vector<Opcode>& all_opcodes();
/// Whether each result element depends only on the elements of the operands at the same index. Operands of select and
/// clamp may be scalars instead.
inline bool is_elementwise(Opcode opcode) {
  return family(opcode) == Family::Unary || family(opcode) == Family::Binary || family(opcode) == Family::Ternary ||
         opcode == Opcode::Convert || opcode == Opcode::ReducePrecision;
}

}  // namespace strata::hlo
