#include "ir/size_expr.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <vector>

namespace strata {
namespace {

using Wide = __int128;

/// More than any program needs: products of sums multiply them.
constexpr size_t kMostTerms = 128;

/// num/den in lowest terms, where that fits.
Result<Rational> reduced(Wide num, Wide den) {
  if (den == 0) return with_remedy(invalid("a size is divided by 0"), "divide by a number or a name that is not 0");
  Wide a = num < 0 ? -num : num;
  Wide b = den < 0 ? -den : den;
  while (b != 0) std::swap(a, b), b %= a;
  if (den < 0) a = -a;
  num /= a;
  den /= a;
  constexpr Wide kLimit = std::numeric_limits<int64_t>::max();
  if (num > kLimit || num < -kLimit || den > kLimit)
    return with_remedy(invalid("a size does not fit 63 bits"), "make the sizes smaller");
  return Rational{static_cast<int64_t>(num), static_cast<int64_t>(den)};
}

Result<Rational> product(const Rational& a, const Rational& b) {
  return reduced(Wide{a.num} * b.num, Wide{a.den} * b.den);
}

Result<Rational> sum(const Rational& a, const Rational& b) {
  // Each product has at most 126 bits.
  return reduced(Wide{a.num} * b.den + Wide{b.num} * a.den, Wide{a.den} * b.den);
}

}  // namespace

std::string to_string(const DimSizes& sizes) {
  std::string text;
  for (const auto& [name, size] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, size);
  return text;
}

SizeExpr::SizeExpr(int64_t number) : SizeExpr(Rational{number, 1}) {}

SizeExpr::SizeExpr(const Rational& number) {
  if (number.num != 0) terms_[{}] = number;
}

SizeExpr SizeExpr::dim(const std::string& name) {
  SizeExpr made;
  made.terms_[{{name, 1}}] = Rational{1, 1};
  return made;
}

Result<void> SizeExpr::add(const Powers& powers, const Rational& factor) {
  Rational& known = terms_[powers];
  STRATA_TRY(known, sum(known, factor));
  if (known.num == 0) terms_.erase(powers);
  if (terms_.size() > kMostTerms)
    return with_remedy(invalid("a size has more than {} terms", kMostTerms), "give a part of it a name");
  return {};
}

Result<SizeExpr> SizeExpr::plus(const SizeExpr& other) const {
  SizeExpr result = *this;
  for (const auto& [powers, factor] : other.terms_) STRATA_CHECK(result.add(powers, factor));
  return result;
}

Result<SizeExpr> SizeExpr::minus(const SizeExpr& other) const {
  STRATA_TRY(const SizeExpr negative, other.times(-1));
  return plus(negative);
}

Result<SizeExpr> SizeExpr::times(const SizeExpr& other) const {
  SizeExpr result;
  for (const auto& [powers, factor] : terms_) {
    for (const auto& [more, by] : other.terms_) {
      Powers all = powers;
      for (const auto& [name, power] : more) {
        if ((all[name] += power) == 0) all.erase(name);
      }
      STRATA_TRY(const Rational both, product(factor, by));
      STRATA_CHECK(result.add(all, both));
    }
  }
  return result;
}

Result<SizeExpr> SizeExpr::divided_by(const SizeExpr& other) const {
  if (other.terms_.size() != 1) {
    return with_remedy(invalid("a size is divided by {}", other.to_string()), "divide by numbers and names only");
  }
  const auto& [powers, factor] = *other.terms_.begin();
  SizeExpr inverse;
  Powers negative;
  for (const auto& [name, power] : powers) negative[name] = -power;
  STRATA_TRY(inverse.terms_[negative], reduced(factor.den, factor.num));
  return times(inverse);
}

bool SizeExpr::is_constant() const { return terms_.empty() || (terms_.size() == 1 && terms_.begin()->first.empty()); }

bool SizeExpr::depends_on(const std::string& dim) const {
  return std::any_of(terms_.begin(), terms_.end(), [&](const auto& term) { return term.first.count(dim) > 0; });
}

std::set<std::string> SizeExpr::dims() const {
  std::set<std::string> names;
  for (const auto& [powers, factor] : terms_) {
    for (const auto& [name, power] : powers) names.insert(name);
  }
  return names;
}

Result<Rational> SizeExpr::evaluate(const DimSizes& sizes) const {
  Rational result{0, 1};
  for (const auto& [powers, factor] : terms_) {
    Rational term = factor;
    for (const auto& [name, power] : powers) {
      const auto found = sizes.find(name);
      if (found == sizes.end()) return invalid("no size is given for '{}'", name);
      const Rational one = power > 0 ? Rational{found->second, 1} : Rational{1, found->second};
      for (int i = 0; i < std::abs(power); ++i) {
        STRATA_TRY(term, product(term, one));
      }
    }
    STRATA_TRY(result, sum(result, term));
  }
  return result;
}

Result<int64_t> SizeExpr::size(const DimSizes& sizes) const {
  STRATA_TRY(const Rational value, evaluate(sizes));
  if (value.den != 1) {
    return with_remedy(
        invalid("{} is {}, no whole number, where {}", to_string(), value.to_string(), strata::to_string(sizes)),
        "choose a size that it divides");
  }
  return value.num;
}

std::optional<int64_t> SizeExpr::solve(const std::string& dim, int64_t value, const DimSizes& others) const {
  Rational rest{-value, 1};
  std::optional<Rational> slope;
  for (const auto& [powers, factor] : terms_) {
    SizeExpr term;
    Powers without = powers;
    const auto at = without.find(dim);
    const bool has = at != without.end();
    if (has && (at->second != 1 || slope)) return std::nullopt;
    if (has) without.erase(at);
    term.terms_[without] = factor;
    const auto number = term.evaluate(others);
    if (!number) return std::nullopt;
    if (has) {
      slope = *number;
      continue;
    }
    const auto both = sum(rest, *number);
    if (!both) return std::nullopt;
    rest = *both;
  }
  if (!slope || slope->num == 0) return std::nullopt;
  const auto found = reduced(-Wide{rest.num} * slope->den, Wide{rest.den} * slope->num);
  if (!found || found->den != 1) return std::nullopt;
  return found->num;
}

std::string SizeExpr::to_string() const {
  if (terms_.empty()) return "0";
  // Names before numbers, what has the most names first.
  std::vector<std::pair<Powers, Rational>> terms(terms_.begin(), terms_.end());
  std::stable_sort(terms.begin(), terms.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  std::string text;
  for (const auto& [powers, factor] : terms) {
    const bool negative = factor.num < 0;
    const int64_t num = negative ? -factor.num : factor.num;
    std::string above, below;
    for (const auto& [name, power] : powers) {
      for (int i = 0; i < std::abs(power); ++i) {
        if (power > 0) {
          above += (above.empty() ? "" : "*") + name;
        } else {
          below += "/" + name;
        }
      }
    }
    if (num != 1 || above.empty()) above = std::to_string(num) + (above.empty() ? "" : "*" + above);
    if (factor.den != 1) below += fmt::format("/{}", factor.den);
    if (text.empty()) {
      // A minus before a name is none of the format's.
      text = (negative ? (above[0] >= '0' && above[0] <= '9' ? "-" : "-1*") : "") + above + below;
    } else {
      text += (negative ? " - " : " + ") + above + below;
    }
  }
  return text;
}

}  // namespace strata
