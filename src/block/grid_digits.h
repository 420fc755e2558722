// Expressions over the coordinates of a block as sums of multiples of digits, and which blocks they take to an
// interval.
#pragma once

#include <map>

#include "block/block_set.h"
#include "indexing/indexing_map.h"

namespace strata {

/// (coordinate floordiv divisor) mod extent.
struct GridDigit {
  size_t coordinate = 0;
  int64_t divisor = 1;
  int64_t extent = 1;
};

/// offset + Σ coefficient · digit + something in `slack`, which is what is no multiple of a digit.
struct DigitForm {
  int64_t offset = 0;
  std::vector<int64_t> coefficients;  ///< for each digit of the grid
  indexing::Interval slack{0, 0};
  int64_t divisor = 1;  ///< the value is the quotient of all this by it, rounded down

  bool exact() const { return slack.is_point(); }
};

/// Values a + step · u, each for exactly one u in [0, count - 1] of the digits that occur.
struct FlatForm {
  int64_t first = 0;
  int64_t step = 1;
  int64_t count = 1;
};

/// Values step · (number of the part) + rest + multiples of step · (number of parts).
struct PartForm {
  int64_t step = 1;
  indexing::Interval rest;
};

/// A grid whose coordinates are cut into digits so that given expressions over them are sums of multiples of digits.
class GridDigits {
 public:
  /// `grid` are the sizes of the grid, at least 1; the expressions use dimension variables alone.
  GridDigits(const std::vector<int64_t>& grid, const std::vector<indexing::Expr>& exprs);

  const std::vector<GridDigit>& digits() const { return digits_; }
  const DigitForm& form(size_t expr) const { return forms_[expr]; }
  /// Whether all blocks that solutions() finds are right.
  bool exact(size_t expr) const;
  /// All values of the expression lie in it; both ends are taken if the form is exact.
  indexing::Interval range(size_t expr) const;
  /// Nothing where values have gaps of different sizes or occur twice.
  std::optional<FlatForm> flat(size_t expr) const;
  /// The digits that occur in none of the expressions, and whether some occur in several.
  std::vector<size_t> unused() const;
  bool shares_digits() const;

  /// Ranges of the digits.
  using DigitBox = std::vector<indexing::Interval>;
  DigitBox everything() const;
  /// The blocks for which the expression lies in `values`, as boxes without common blocks. Adds what it took to
  /// `steps`.
  std::vector<DigitBox> solutions(size_t expr, const indexing::Interval& values, int64_t& steps) const;
  /// The same for a coordinate itself.
  std::vector<DigitBox> coordinate_within(size_t coordinate, const indexing::Interval& values, int64_t& steps) const;
  BlockBox blocks(const DigitBox& box) const;

  /// The expression by parts of `part` neighbours along a coordinate, whose size is a multiple of that; nothing where
  /// it has no such form.
  std::optional<PartForm> parts(size_t expr, size_t coordinate, int64_t part) const;

 private:
  DigitForm form_of(const indexing::Expr& expr) const;
  std::vector<DigitBox> solve(const DigitForm& form, const indexing::Interval& values, int64_t& steps) const;

  std::vector<int64_t> grid_;
  std::vector<GridDigit> digits_;
  std::vector<DigitForm> forms_;
};

/// The digit of a dimension or range variable that an atom is, of all of the variable's values if there is no divisor
/// or remainder; nothing where it is none. `extent` is kGreatest where no remainder ends it.
struct AtomDigit {
  indexing::Expr variable;
  int64_t divisor = 1;
  int64_t extent = indexing::kGreatest;
};
std::optional<AtomDigit> digit_of(const indexing::Expr& atom);

}  // namespace strata
