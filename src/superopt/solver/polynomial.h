// Polynomials with rational coefficients over atoms, which are numbers: what formulas.h makes its normal forms of.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "support/rational.h"

namespace strata {

/// A rational in lowest terms. What does not fit 63 bits is invalid (den = 0), and so is all that is made of it.
struct Number {
  int64_t num = 0;
  int64_t den = 1;

  bool valid() const { return den != 0; }
  bool is_integer() const { return den == 1; }
  bool is_zero() const { return num == 0 && den != 0; }
  Number abs() const { return {num < 0 ? -num : num, den}; }
  Number inverse() const { return num < 0 ? Number{-den, -num} : Number{den, num}; }
  friend Number operator+(const Number& a, const Number& b);
  friend Number operator*(const Number& a, const Number& b);
  friend Number operator-(const Number& a) { return {-a.num, a.den}; }
  friend Number operator-(const Number& a, const Number& b) { return a + -b; }
  friend bool operator==(const Number&, const Number&) = default;
  friend std::strong_ordering operator<=>(const Number& a, const Number& b);
};

using AtomId = uint32_t;

struct Factor {
  AtomId atom;
  Number exponent;
  friend bool operator==(const Factor&, const Factor&) = default;
  friend std::strong_ordering operator<=>(const Factor&, const Factor&) = default;
};

/// Sorted by atom, no exponent 0; empty is 1.
using Monomial = std::vector<Factor>;

Monomial operator*(const Monomial& a, const Monomial& b);
/// The exponent of an atom; 0 where it does not occur.
Number exponent_of(const Monomial& monomial, AtomId atom);
Monomial with_exponent(Monomial monomial, AtomId atom, const Number& exponent);

struct Term {
  Monomial monomial;
  Number coefficient;
  friend bool operator==(const Term&, const Term&) = default;
  friend std::strong_ordering operator<=>(const Term&, const Term&) = default;
};

/// Sorted by monomial, no coefficient 0; empty is 0.
using Polynomial = std::vector<Term>;

Polynomial constant_polynomial(const Number& value);
inline Polynomial one() { return constant_polynomial({1, 1}); }
/// The value of a polynomial without atoms.
std::optional<Number> constant_of(const Polynomial& p);
Polynomial operator+(const Polynomial& a, const Polynomial& b);
Polynomial scaled(Polynomial p, const Number& factor);
Polynomial operator-(const Polynomial& a, const Polynomial& b);
bool is_valid(const Polynomial& p);
uint64_t hash_of(const Polynomial& p);

/// The atoms that all terms share, with their least exponents.
Monomial content_of(const Polynomial& p);
Monomial inverse_of(Monomial monomial);

}  // namespace strata
