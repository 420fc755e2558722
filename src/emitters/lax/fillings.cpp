#include "emitters/lax/fillings.h"

#include <algorithm>

namespace strata::emitters {
namespace {

using hlo::Opcode;

/// 0 or other numbers, of which sums and products are numbers.
bool is_number(Filling f) { return f == Filling::Same || f == Filling::Zeros || f == Filling::Numbers; }
bool may_be_masked(Filling f) { return f == Filling::Masked || f == Filling::Low; }

Filling sum(Filling a, Filling b) {
  if (a == b && a != Filling::Any) return a;
  if (is_number(a) && is_number(b)) return Filling::Numbers;
  if (a == Filling::Any || b == Filling::Any) return Filling::Any;
  return a == Filling::Masked || b == Filling::Masked ? Filling::Masked : Filling::Low;
}

Filling difference(Filling a, Filling b) {
  if (!may_be_masked(b)) return sum(a, b);
  return Filling::Any;  // −∞ − −∞
}

Filling either(Filling a, Filling b) {
  if (a == b) return a;
  if (is_number(a) && is_number(b)) return Filling::Numbers;
  return a == Filling::Any || b == Filling::Any ? Filling::Any : Filling::Low;
}

Filling largest(Filling a, Filling b) {
  if (a == b) return a;
  if (a == Filling::Any || b == Filling::Any) return Filling::Any;
  return is_number(a) || is_number(b) ? Filling::Numbers : Filling::Low;
}

Filling quotient(Filling a, Filling b, std::optional<double> divisor) {
  if (divisor && *divisor == 0) return Filling::Any;
  if (may_be_masked(a) && divisor && *divisor > 0) return a;
  // Where a divisor of the module is 0, so is the module's own quotient no number.
  return is_number(a) && b == Filling::Same ? a : Filling::Any;
}

Filling power(Filling base, Filling exponent, std::optional<double> constant) {
  if (base == Filling::Same && exponent == Filling::Same) return Filling::Same;
  if (!constant || *constant <= 0) return Filling::Any;
  if (base == Filling::Zeros) return Filling::Zeros;
  const bool whole = *constant == static_cast<double>(static_cast<int>(*constant));
  return base == Filling::Numbers && whole ? Filling::Numbers : Filling::Any;
}

Filling exponential(Filling of) {
  if (of == Filling::Masked) return Filling::Zeros;
  if (of == Filling::Zeros) return Filling::Numbers;
  return of == Filling::Same ? Filling::Same : Filling::Any;
}

}  // namespace

Filling filling_of_product(Filling a, Filling b) {
  if (!is_number(a) || !is_number(b)) return Filling::Any;
  if (a == Filling::Zeros || b == Filling::Zeros) return Filling::Zeros;
  return a == b ? a : Filling::Numbers;
}

Filling filling_of(Opcode opcode, const std::vector<Filling>& operands,
                   const std::vector<std::optional<double>>& constants) {
  const Filling a = operands.empty() ? Filling::Any : operands[0];
  const Filling b = operands.size() > 1 ? operands[1] : a;
  switch (opcode) {
    case Opcode::Bitcast:
    case Opcode::Broadcast:
    case Opcode::Convert:
    case Opcode::Copy:
    case Opcode::Reshape:
    case Opcode::Transpose:
      return a;
    case Opcode::Add:
      return sum(a, b);
    case Opcode::Subtract:
      return difference(a, b);
    case Opcode::Multiply:
      for (size_t i = 0; i < 2; ++i)
        if (may_be_masked(operands[1 - i]) && constants[i] && *constants[i] > 0) return operands[1 - i];
      return filling_of_product(a, b);
    case Opcode::Divide:
      return quotient(a, b, constants[1]);
    case Opcode::Maximum:
      return largest(a, b);
    case Opcode::Negate:
      return is_number(a) ? a : Filling::Any;
    case Opcode::Exp:
      return exponential(a);
    case Opcode::Logistic:
      return a == Filling::Same ? a : a == Filling::Any ? Filling::Any : Filling::Numbers;
    case Opcode::Sqrt:
      return a == Filling::Same || a == Filling::Zeros ? a : Filling::Any;
    case Opcode::Rsqrt:
      return a == Filling::Same ? a : Filling::Any;
    case Opcode::Power:
      return power(a, b, constants[1]);
    case Opcode::Select:
      return either(operands[1], operands[2]);
    case Opcode::And:
    case Opcode::Compare:
    case Opcode::Iota:
    case Opcode::Not:
    case Opcode::Or:
      return Filling::Numbers;
    default:
      return Filling::Any;
  }
}

}  // namespace strata::emitters
