// The order of monomials and the exact divisions that rest on it.
#include <algorithm>

#include "superopt/expr/normal_forms.h"

namespace strata {
namespace {

int sign(auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; }

/// Lexicographic in the powers: the least atom on which the two differ decides.
int compare_powers(const std::vector<Factor>& a, const std::vector<Factor>& b) {
  const size_t common = std::min(a.size(), b.size());
  for (size_t i = 0; i < common; ++i) {
    if (a[i].atom != b[i].atom) return a[i].atom < b[i].atom ? 1 : -1;
    if (a[i].power != b[i].power) return sign(a[i].power, b[i].power);
  }
  return sign(a.size(), b.size());
}

/// The powers of a less those of b; nullopt where one would be negative.
std::optional<std::vector<Factor>> subtract_powers(const std::vector<Factor>& a, const std::vector<Factor>& b) {
  if (b.size() > a.size()) return std::nullopt;
  std::vector<Factor> result;
  result.reserve(a.size());
  size_t j = 0;
  for (const Factor& factor : a) {
    const bool shared = j < b.size() && b[j].atom == factor.atom;
    const uint32_t less = shared ? b[j++].power : 0;
    if (factor.power < less) return std::nullopt;
    if (factor.power > less) result.push_back({factor.atom, factor.power - less});
  }
  if (j != b.size()) return std::nullopt;
  return result;
}

bool includes_powers(const std::vector<Factor>& a, const std::vector<Factor>& b) {
  size_t j = 0;
  for (size_t i = 0; i < a.size() && j < b.size(); ++i) {
    if (a[i].atom > b[j].atom || (a[i].atom == b[j].atom && a[i].power < b[j].power)) return false;
    j += a[i].atom == b[j].atom;
  }
  return j == b.size();
}

/// Takes `part`, in the same order as `sum`, out of it; false where it is not in there. `sum` keeps its order
/// and is unspecified on failure.
bool take_out(std::vector<Term>& sum, std::span<const Term> part) {
  size_t j = 0;
  for (Term& term : sum) {
    if (j == part.size()) break;
    if (term.monomial != part[j].monomial) continue;
    if (term.count < part[j].count) return false;
    term.count -= part[j++].count;
  }
  std::erase_if(sum, [](const Term& term) { return term.count == 0; });
  return j == part.size();
}

}  // namespace

int NormalForms::compare(MonomialId a, MonomialId b) const {
  if (a == b) return 0;
  const Monomial& x = monomial(a);
  const Monomial& y = monomial(b);
  if (const int order = compare_powers(x.atoms, y.atoms)) return order;
  if (x.extent != y.extent) return sign(x.extent, y.extent);
  if (const int order = compare_sums(x.root, y.root)) return order;
  if (const int order = compare_sums(x.denominator, y.denominator)) return order;
  return compare_sums(x.exponent, y.exponent);
}

int NormalForms::compare_sums(ExprId a, ExprId b) const {
  if (a == b) return 0;
  if (a == Monomial::kNoExponent) return -1;
  if (b == Monomial::kNoExponent) return 1;
  // The sign of the leading coefficient of a - b: sums and products of positives respect it.
  const auto x = terms(a);
  const auto y = terms(b);
  const size_t common = std::min(x.size(), y.size());
  for (size_t i = 0; i < common; ++i) {
    if (const int order = compare(x[i].monomial, y[i].monomial)) return order;
    if (x[i].count != y[i].count) return sign(x[i].count, y[i].count);
  }
  return sign(x.size(), y.size());
}

std::optional<MonomialId> NormalForms::divide(MonomialId a, MonomialId b) {
  const Monomial& x = monomial(a);
  const Monomial& y = monomial(b);
  if (x.extent % y.extent != 0) return std::nullopt;
  auto atoms = subtract_powers(x.atoms, y.atoms);
  if (!atoms) return std::nullopt;
  const auto exponent = subtract_exponents(x.exponent, y.exponent);
  if (!exponent) return std::nullopt;
  const auto root = divide_sums(x.root, y.root);
  if (!root) return std::nullopt;
  const auto denominator = divide_sums(x.denominator, y.denominator);
  if (!denominator) return std::nullopt;
  return intern(Monomial{x.extent / y.extent, std::move(*atoms), *root, *denominator, *exponent});
}

bool NormalForms::divides(MonomialId b, MonomialId a) {
  if (a == b) return true;
  const Monomial& x = monomial(a);
  const Monomial& y = monomial(b);
  return includes_powers(x.atoms, y.atoms) && x.extent % y.extent == 0 && divides_sums(y.root, x.root) &&
         divides_sums(y.denominator, x.denominator) && subtract_exponents(x.exponent, y.exponent).has_value();
}

std::optional<ExprId> NormalForms::divide_sums(ExprId a, ExprId b) {
  if (b == kOne) return a;
  if (a == b) return kOne;
  const auto divisor = terms(b);
  Sum rest(terms(a).begin(), terms(a).end());
  Sum quotient;
  Sum product(divisor.size());
  while (!rest.empty()) {
    // The greatest term of a product is the product of the greatest terms, so each step is forced; and as
    // nothing is negative, what is taken away must be there.
    if (rest.size() < divisor.size() || rest[0].count % divisor[0].count != 0) return std::nullopt;
    const auto monomial = divide(rest[0].monomial, divisor[0].monomial);
    if (!monomial) return std::nullopt;
    const Term step{*monomial, rest[0].count / divisor[0].count};
    for (size_t i = 0; i < divisor.size(); ++i) {
      const auto at = multiply(step.monomial, divisor[i].monomial);
      if (!at || __builtin_mul_overflow(step.count, divisor[i].count, &product[i].count)) return std::nullopt;
      product[i].monomial = *at;
    }
    if (!take_out(rest, product)) return std::nullopt;
    quotient.push_back(step);
  }
  return intern(std::move(quotient));
}

bool NormalForms::divides_sums(ExprId b, ExprId a) {
  if (b == kOne || a == b) return true;
  const auto divisor = terms(b);
  if (divisor.size() != 1) return divide_sums(a, b).has_value();
  return std::ranges::all_of(terms(a), [&](const Term& term) {
    return term.count % divisor[0].count == 0 && divides(divisor[0].monomial, term.monomial);
  });
}

std::optional<ExprId> NormalForms::subtract_exponents(ExprId a, ExprId b) {
  if (b == Monomial::kNoExponent) return a;
  if (a == Monomial::kNoExponent) return std::nullopt;
  if (a == b) return Monomial::kNoExponent;
  Sum rest(terms(a).begin(), terms(a).end());
  if (!take_out(rest, terms(b))) return std::nullopt;
  return intern(std::move(rest));
}

}  // namespace strata
