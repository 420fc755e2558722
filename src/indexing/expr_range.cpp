#include "indexing/expr_range.h"

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
  for (const Term& term : expr.terms()) step = common_divisor(step, term.coefficient);
  return step;
}

/// k where `expr` = k * `part` + a sum of other terms; 0 if there is none.
int64_t multiple_within(const Expr& expr, const Expr& part) {
  const std::vector<Expr>& atoms = expr.atoms();
  int64_t factor = 0;
  size_t at = 0;
  // Both are sorted.
  for (size_t i = 0; i < part.atoms().size(); ++i) {
    while (at < atoms.size() && atoms[at] < part.atoms()[i]) ++at;
    if (at == atoms.size() || atoms[at] != part.atoms()[i]) return 0;
    const int64_t coefficient = expr.coefficients()[at];
    const int64_t divisor = part.coefficients()[i];
    if (coefficient % divisor != 0 || (i > 0 && coefficient / divisor != factor)) return 0;
    factor = coefficient / divisor;
  }
  return factor;
}

}  // namespace

Interval without_offset(const Expr& expr, const Interval& bounds) {
  return {moved(bounds.lo, expr.offset()), moved(bounds.hi, expr.offset())};
}

ExprRange::ExprRange(const IndexingMap& map, Facts facts) : map_(map) {
  if (facts == Facts::Variables) return;
  for (const auto& [expr, bounds] : map.constraints) {
    const Expr key = drop_offset(expr);
    if (key.is_constant() || key.is_undefined()) continue;
    const Interval of_key = without_offset(expr, bounds);
    if (key.kind() == ExprKind::Sum) {
      constrained_sums_.push_back({key, of_key});
      continue;
    }
    const auto [entry, added] = constrained_atoms_.emplace(key, of_key);
    if (!added) entry->second = intersect(entry->second, of_key);
  }
}

Interval ExprRange::operator()(const Expr& expr) {
  if (expr.is_constant()) return {expr.value(), expr.value()};
  if (expr.is_undefined()) return kEverything;
  if (const auto known = known_.find(expr); known != known_.end()) return known->second;
  Interval range = compute(expr);
  if (expr.kind() == ExprKind::Sum) {
    if (!constrained_sums_.empty()) range = intersect(range, from_constraints(expr));
  } else if (const auto entry = constrained_atoms_.find(expr); entry != constrained_atoms_.end()) {
    range = intersect(range, entry->second);
  }
  known_.emplace(expr, range);
  return range;
}

/// What the constraints say of a sum: it is a multiple of a constrained one plus what has fewer terms.
Interval ExprRange::from_constraints(const Expr& expr) {
  Interval range = kEverything;
  for (const auto& [part, bounds] : constrained_sums_) {
    const int64_t factor = multiple_within(expr, part);
    if (factor == 0) continue;
    const Expr rest = expr - part * factor;
    if (!rest.is_undefined()) range = intersect(range, bounds * factor + (*this)(rest));
  }
  return range;
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
      const int64_t step = divisor.is_point() ? common_divisor(step_of(expr.lhs()), divisor.lo) : 1;
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
