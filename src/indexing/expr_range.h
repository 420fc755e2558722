// Which values an expression may take, by interval analysis.
#pragma once

#include <unordered_map>

#include "indexing/indexing_map.h"

namespace strata::indexing {

/// Intervals that contain every value an expression takes on the domain of a map. They are exact for sums of distinct
/// variables with coefficients, for quotients and remainders of such, and sound always. A bound kLeast or kGreatest
/// stands for "no bound". Refers to the map, which must outlive it; results are remembered by expression.
class ExprRange {
 public:
  enum class Facts { Variables, VariablesAndConstraints };
  /// With VariablesAndConstraints what the constraints say of their expressions counts, and so of sums that contain a
  /// multiple of one.
  explicit ExprRange(const IndexingMap& map, Facts facts = Facts::Variables);
  Interval operator()(const Expr& expr);

 private:
  Interval compute(const Expr& expr);
  Interval from_constraints(const Expr& expr);

  const IndexingMap& map_;
  std::unordered_map<Expr, Interval, ExprHash> known_;
  std::unordered_map<Expr, Interval, ExprHash> constrained_atoms_;
  std::vector<Constraint> constrained_sums_;  ///< without offsets, of two terms or more or of one with a coefficient
};

/// The bounds that [lo, hi] on `expr` puts on `expr` without its offset.
Interval without_offset(const Expr& expr, const Interval& bounds);

}  // namespace strata::indexing
