// Sizes as expressions of named ones: 2*tokens, tokens*heads, tokens/64, 1/tokens.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "support/rational.h"

namespace strata {

/// Sizes by name; each at least 1.
using DimSizes = std::map<std::string, int64_t>;

/// "tokens=16, heads=8".
std::string to_string(const DimSizes& sizes);

/// A sum of products of names with rational factors; names may also divide. Two expressions are equal where they have
/// the same terms, so that equal ones are equal for all sizes, and different ones are not for some.
class SizeExpr {
 public:
  SizeExpr(int64_t number = 0);  // NOLINT: numbers are expressions
  explicit SizeExpr(const Rational& number);
  static SizeExpr dim(const std::string& name);

  // Errors where a number does not fit 63 bits; divided_by: also where the divisor is 0 or has several terms.
  Result<SizeExpr> plus(const SizeExpr& other) const;
  Result<SizeExpr> minus(const SizeExpr& other) const;
  Result<SizeExpr> times(const SizeExpr& other) const;
  Result<SizeExpr> divided_by(const SizeExpr& other) const;

  bool is_constant() const;
  bool is(int64_t number) const { return *this == SizeExpr(number); }
  bool depends_on(const std::string& dim) const;
  std::set<std::string> dims() const;

  /// Error where a name has no size, or the number does not fit 63 bits.
  Result<Rational> evaluate(const DimSizes& sizes) const;
  /// As evaluate; error where it is no whole number.
  Result<int64_t> size(const DimSizes& sizes) const;
  /// The size of `dim` at which the expression is `value`, with all other names given; nothing where the expression has
  /// `dim` otherwise than in one term, once, or there is no whole number.
  std::optional<int64_t> solve(const std::string& dim, int64_t value, const DimSizes& others) const;

  /// As programs write it; it reads back as an equal expression.
  std::string to_string() const;
  friend bool operator==(const SizeExpr&, const SizeExpr&) = default;

 private:
  using Powers = std::map<std::string, int>;  ///< none is 0
  Result<void> add(const Powers& powers, const Rational& factor);

  std::map<Powers, Rational> terms_;  ///< no factor is 0
};

}  // namespace strata
