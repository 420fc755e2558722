#include "indexing/expr_range.h"

#include <numeric>

namespace strata::indexing {
namespace {

Expr drop_offset(const Expr& expr) { return expr.offset() == 0 ? expr : Expr::sum(0, expr.terms()); }

/// A bound moved by `-offset`, where the ends of int64_t mean "none".
int64_t moved(int64_t bound, int64_t offset) {
  if (bound == kLeast || bound == kGreatest) return bound;
  return static_cast<int64_t>(std::clamp<__int128>(static_cast<__int128>(bound) - offset, kLeast, kGreatest));
}

/// All values of an expression are offset + a multiple of this: the gcd of the coefficients; 0 for a constant.
int64_t step_of(const Expr& expr) {
  int64_t step = 0;
  for (const Term& term : expr.terms()) step = std::gcd(step, term.coefficient);
  return step;
}

}  // namespace

Interval without_offset(const Expr& expr, const Interval& bounds) {
  return {moved(bounds.lo, expr.offset()), moved(bounds.hi, expr.offset())};
}

ExprRange::ExprRange(const IndexingMap& map, Facts facts) : map_(map) {
  if (facts == Facts::Variables) return;
  for (const auto& [expr, bounds] : map.constraints) {
    const Expr key = drop_offset(expr);
    const auto [entry, added] = constrained_.emplace(key, without_offset(expr, bounds));
    if (!added) entry->second = intersect(entry->second, without_offset(expr, bounds));
  }
}

Interval ExprRange::operator()(const Expr& expr) {
  if (expr.is_constant()) return {expr.value(), expr.value()};
  if (expr.is_undefined()) return kEverything;
  if (const auto known = known_.find(expr); known != known_.end()) return known->second;
  Interval range = compute(expr);
  if (!constrained_.empty()) range = intersect(range, from_constraints(expr));
  known_.emplace(expr, range);
  return range;
}

Interval ExprRange::from_constraints(const Expr& expr) const {
  const Expr key = drop_offset(expr);
  if (key.is_constant()) return kEverything;
  if (const auto entry = constrained_.find(key); entry != constrained_.end()) {
    return entry->second + Interval{expr.offset(), expr.offset()};
  }
  if (const auto entry = constrained_.find(key * -1); entry != constrained_.end()) {
    return entry->second * -1 + Interval{expr.offset(), expr.offset()};
  }
  return kEverything;
}

Interval ExprRange::compute(const Expr& expr) {
  switch (expr.kind()) {
    case ExprKind::Dimension:
    case ExprKind::Range:
    case ExprKind::Runtime:
      return map_.range_of(expr.kind(), expr.number());
    case ExprKind::FloorDiv:
      return floor_div((*this)(expr.lhs()), (*this)(expr.rhs()));
    case ExprKind::Mod: {
      const Interval divisor = (*this)(expr.rhs());
      const Interval range = mod((*this)(expr.lhs()), divisor);
      const int64_t step = divisor.is_point() ? std::gcd(step_of(expr.lhs()), divisor.lo) : 1;
      if (step <= 1 || range.empty() || divisor.lo <= 0) return range;
      // Remainders lie on the grid of the terms: of 4 * x + 1 by 8 they are 1 and 5.
      const int64_t first = floor_mod(expr.lhs().offset(), step);
      const auto up = checked_mul(ceil_div(range.lo - first, step), step);
      const auto down = checked_mul(floor_div(range.hi - first, step), step);
      return up && down ? intersect(range, {*up + first, *down + first}) : range;
    }
    case ExprKind::Product: {
      Interval range{1, 1};
      for (const Expr& factor : expr.factors()) range = range * (*this)(factor);
      return range;
    }
    case ExprKind::Sum: {
      Interval range{expr.offset(), expr.offset()};
      for (size_t i = 0; i < expr.atoms().size(); ++i) {
        range = range + (*this)(expr.atoms()[i]) * expr.coefficients()[i];
      }
      return range;
    }
    case ExprKind::Constant:
    case ExprKind::Undefined:
      break;
  }
  return kEverything;
}

}  // namespace strata::indexing
