// What a normal form consists of: a sum of monomials over atoms. docs/abstract-expressions.md derives it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/expr_builder.h"

namespace strata {

using AtomId = uint32_t;
using MonomialId = uint32_t;

/// A factor that the axioms do not look into from outside: an input, a constant other than 1, or a function
/// applied to normal forms.
struct Atom {
  enum class Kind : uint8_t { Input, Constant, Function };
  Kind kind = Kind::Input;
  std::string name;               ///< of the input or function
  Rational value{};               ///< of the constant
  int64_t parameter = 0;          ///< of the function
  std::vector<ExprId> arguments;  ///< of the function; sorted where it is commutative

  friend bool operator==(const Atom&, const Atom&) = default;
};

struct Factor {
  AtomId atom = 0;
  uint32_t power = 0;

  friend bool operator==(const Factor&, const Factor&) = default;
};

/// extent^ · atoms · sqrt(root) · exp(exponent) / denominator, where k^ stands for sum(k, 1), so that
/// sum(k, x) = k^ · x. One root, one exponent and one denominator suffice, because sqrt and the reciprocal
/// are homomorphisms of multiplication and exp turns sums into products.
struct Monomial {
  static constexpr ExprId kUnit = 0;                   ///< normal form of 1: no root, no denominator
  static constexpr ExprId kNoExponent = ~uint32_t{0};  ///< no exp factor; the expressions have no zero

  int64_t extent = 1;
  std::vector<Factor> atoms;  ///< ascending by atom, powers at least 1
  ExprId root = kUnit;
  ExprId denominator = kUnit;
  ExprId exponent = kNoExponent;

  friend bool operator==(const Monomial&, const Monomial&) = default;
};

/// A monomial and how often the sum has it, at least once.
struct Term {
  MonomialId monomial = 0;
  uint64_t count = 1;

  friend bool operator==(const Term&, const Term&) = default;
};

}  // namespace strata
