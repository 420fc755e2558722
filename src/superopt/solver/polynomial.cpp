#include "superopt/solver/polynomial.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "support/hash.h"

namespace strata {
namespace {

using Wide = __int128;

Number lowest(Wide num, Wide den) {
  if (den == 0) return {0, 0};
  Wide a = num < 0 ? -num : num;
  for (Wide b = den; b != 0;) {
    const Wide rest = a % b;
    a = b;
    b = rest;
  }
  num /= a;
  den /= a;
  constexpr Wide kLargest = std::numeric_limits<int64_t>::max();
  if (num > kLargest || num < -kLargest || den > kLargest) return {0, 0};
  return {static_cast<int64_t>(num), static_cast<int64_t>(den)};
}

}  // namespace

Number operator+(const Number& a, const Number& b) {
  if (!a.valid() || !b.valid()) return {0, 0};
  if (a.den == b.den) return lowest(Wide{a.num} + b.num, a.den);
  // Two products of 63 bits each: their sum fits 128.
  return lowest(Wide{a.num} * b.den + Wide{b.num} * a.den, Wide{a.den} * b.den);
}

Number operator*(const Number& a, const Number& b) {
  if (!a.valid() || !b.valid()) return {0, 0};
  return lowest(Wide{a.num} * b.num, Wide{a.den} * b.den);
}

std::strong_ordering operator<=>(const Number& a, const Number& b) {
  const Wide left = Wide{a.num} * b.den;
  const Wide right = Wide{b.num} * a.den;
  return left < right   ? std::strong_ordering::less
         : left > right ? std::strong_ordering::greater
                        : std::strong_ordering::equal;
}

Monomial operator*(const Monomial& a, const Monomial& b) {
  Monomial result;
  result.reserve(a.size() + b.size());
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() || j < b.size()) {
    if (j == b.size() || (i < a.size() && a[i].atom < b[j].atom)) {
      result.push_back(a[i++]);
    } else if (i == a.size() || b[j].atom < a[i].atom) {
      result.push_back(b[j++]);
    } else {
      const Number exponent = a[i].exponent + b[j].exponent;
      if (!exponent.is_zero()) result.push_back({a[i].atom, exponent});
      ++i;
      ++j;
    }
  }
  return result;
}

Number exponent_of(const Monomial& monomial, AtomId atom) {
  for (const Factor& factor : monomial) {
    if (factor.atom == atom) return factor.exponent;
  }
  return {};
}

Monomial with_exponent(Monomial monomial, AtomId atom, const Number& exponent) {
  std::erase_if(monomial, [&](const Factor& factor) { return factor.atom == atom; });
  return exponent.is_zero() ? monomial : monomial * Monomial{{atom, exponent}};
}

Polynomial constant_polynomial(const Number& value) {
  if (value.is_zero()) return {};
  return {{{}, value}};
}

std::optional<Number> constant_of(const Polynomial& p) {
  if (p.empty()) return Number{};
  if (p.size() == 1 && p[0].monomial.empty()) return p[0].coefficient;
  return std::nullopt;
}

Polynomial operator+(const Polynomial& a, const Polynomial& b) {
  Polynomial result;
  result.reserve(a.size() + b.size());
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() || j < b.size()) {
    const auto order = j == b.size()   ? std::strong_ordering::less
                       : i == a.size() ? std::strong_ordering::greater
                                       : a[i].monomial <=> b[j].monomial;
    if (order < 0) {
      result.push_back(a[i++]);
    } else if (order > 0) {
      result.push_back(b[j++]);
    } else {
      const Number sum = a[i].coefficient + b[j].coefficient;
      if (!sum.is_zero()) result.push_back({a[i].monomial, sum});
      ++i;
      ++j;
    }
  }
  return result;
}

Polynomial scaled(Polynomial p, const Number& factor) {
  if (factor.is_zero()) return {};
  for (Term& term : p) term.coefficient = term.coefficient * factor;
  return p;
}

Polynomial operator-(const Polynomial& a, const Polynomial& b) { return a + scaled(b, {-1, 1}); }

bool is_valid(const Polynomial& p) {
  return std::all_of(p.begin(), p.end(), [](const Term& term) {
    return term.coefficient.valid() && std::all_of(term.monomial.begin(), term.monomial.end(),
                                                   [](const Factor& factor) { return factor.exponent.valid(); });
  });
}

uint64_t hash_of(const Polynomial& p) {
  Hasher hasher;
  for (const Term& term : p) {
    hasher.add(static_cast<uint64_t>(term.coefficient.num)).add(static_cast<uint64_t>(term.coefficient.den));
    for (const Factor& factor : term.monomial) {
      hasher.add(uint64_t{factor.atom}).add(static_cast<uint64_t>(factor.exponent.num));
      hasher.add(static_cast<uint64_t>(factor.exponent.den));
    }
  }
  return hasher.value();
}

Monomial content_of(const Polynomial& p) {
  if (p.empty()) return {};
  std::vector<AtomId> atoms;
  for (const Term& term : p) {
    for (const Factor& factor : term.monomial) atoms.push_back(factor.atom);
  }
  std::sort(atoms.begin(), atoms.end());
  atoms.erase(std::unique(atoms.begin(), atoms.end()), atoms.end());
  Monomial content;
  for (AtomId atom : atoms) {
    Number least = exponent_of(p[0].monomial, atom);
    for (const Term& term : p) least = std::min(least, exponent_of(term.monomial, atom));
    if (!least.is_zero()) content.push_back({atom, least});
  }
  return content;
}

Monomial inverse_of(Monomial monomial) {
  for (Factor& factor : monomial) factor.exponent = -factor.exponent;
  return monomial;
}

}  // namespace strata
