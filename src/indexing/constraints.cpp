#include "indexing/constraints.h"

#include <algorithm>
#include <cassert>
#include <set>

#include "indexing/simplify.h"
#include "indexing/simplify_expr.h"

namespace strata::indexing {
namespace {

bool unbounded(int64_t bound) { return bound == kLeast || bound == kGreatest; }

bool bounded(const Interval& interval) { return !unbounded(interval.lo) && !unbounded(interval.hi); }

/// bound - x, where "no bound" stays so.
int64_t minus(int64_t bound, int64_t x) {
  return unbounded(bound) ? bound : saturating_add(bound, x == kLeast ? kGreatest : -x);
}

int64_t floor_bound(int64_t bound, int64_t divisor) { return unbounded(bound) ? bound : floor_div(bound, divisor); }
int64_t ceil_bound(int64_t bound, int64_t divisor) { return unbounded(bound) ? bound : ceil_div(bound, divisor); }

/// The x for which a * x may lie in the interval.
Interval divided(const Interval& interval, int64_t a) {
  if (a > 0) return {ceil_bound(interval.lo, a), floor_bound(interval.hi, a)};
  // a = -b: -b * x in [lo, hi] is x in [-hi / b, -lo / b].
  const Interval negated{minus(0, interval.hi), minus(0, interval.lo)};
  const Interval turned{unbounded(interval.hi) ? kLeast : negated.lo, unbounded(interval.lo) ? kGreatest : negated.hi};
  return {ceil_bound(turned.lo, -a), floor_bound(turned.hi, -a)};
}

/// The interval narrowed to its least and greatest values whose remainder by c lies in `remainders`.
Interval narrowed_to_remainders(Interval interval, int64_t c, const Interval& remainders) {
  if (interval.empty() || !bounded(interval) || remainders.empty()) return interval;
  const int64_t low = floor_mod(interval.lo, c);
  if (low < remainders.lo) interval.lo = saturating_add(interval.lo, remainders.lo - low);
  if (low > remainders.hi) interval.lo = saturating_add(interval.lo, c - low + remainders.lo);
  const int64_t high = floor_mod(interval.hi, c);
  if (high > remainders.hi) interval.hi = saturating_add(interval.hi, remainders.hi - high);
  if (high < remainders.lo) interval.hi = saturating_add(interval.hi, -(high + c - remainders.hi));
  return interval;
}

class Constraints {
 public:
  explicit Constraints(IndexingMap& map) : map_(map), before_(map), range_(before_), simplifier_(range_) {}

  void run() {
    std::vector<Constraint> kept;
    for (Constraint constraint : std::move(map_.constraints)) {
      if (reduced(constraint)) kept.push_back(std::move(constraint));
    }
    std::sort(kept.begin(), kept.end(), [](const Constraint& a, const Constraint& b) { return a.expr < b.expr; });
    map_.constraints.clear();
    for (Constraint& constraint : kept) {
      if (!map_.constraints.empty() && map_.constraints.back().expr == constraint.expr) {
        map_.constraints.back().bounds = intersect(map_.constraints.back().bounds, constraint.bounds);
      } else {
        map_.constraints.push_back(std::move(constraint));
      }
    }
    for (const Constraint& constraint : map_.constraints) count_uses(constraint.expr);
    for (const Constraint& constraint : map_.constraints) {
      map_.known_empty |= constraint.bounds.empty();
      imply(constraint.expr, constraint.bounds);
    }
  }

 private:
  /// Whether anything is left of the constraint, which becomes its simplest form. A constraint that is a range of a
  /// variable becomes that; one that cannot hold empties the map.
  bool reduced(Constraint& constraint) {
    for (;;) {
      constraint.expr = simplifier_(constraint.expr);
      if (constraint.expr.is_undefined()) return true;
      constraint.bounds = without_offset(constraint.expr, constraint.bounds);
      constraint.expr = Expr::sum(0, constraint.expr.terms());
      const Interval values = range_(constraint.expr);
      if (values.empty() || intersect(values, constraint.bounds).empty()) {
        map_.known_empty = true;
        return false;
      }
      if (constraint.bounds.contains(values)) return false;
      constraint.bounds = intersect(constraint.bounds, values);
      if (!primitive(constraint) && !without_low_part(constraint) && !of_quotient(constraint)) break;
    }
    if (!constraint.expr.is_variable() || constraint.expr.kind() == ExprKind::Runtime) return true;
    narrow(constraint.expr, constraint.bounds);
    return false;
  }

  /// Divides by the greatest common divisor of the coefficients, and makes the first coefficient positive.
  static bool primitive(Constraint& constraint) {
    std::vector<Term> terms = constraint.expr.terms();
    int64_t g = 0;
    for (const Term& term : terms) g = common_divisor(g, term.coefficient);
    if (terms.front().coefficient < 0) g = -g;
    if (g == 1) return false;
    // -2⁶³ has no negative.
    if (g == -1 && std::any_of(terms.begin(), terms.end(), [](const Term& t) { return t.coefficient == kLeast; }))
      return false;
    for (Term& term : terms) term.coefficient /= g;
    constraint = {Expr::sum(0, std::move(terms)), divided(constraint.bounds, g)};
    return true;
  }

  /// g * q + r in [lo, hi] where r, in its range, does not matter: q in [lo / g, hi / g].
  bool without_low_part(Constraint& constraint) {
    const std::vector<Term> terms = constraint.expr.terms();
    if (terms.size() < 2 || !bounded(constraint.bounds)) return false;
    std::set<int64_t, std::greater<>> magnitudes;
    for (const Term& term : terms) magnitudes.insert(term.coefficient < 0 ? -term.coefficient : term.coefficient);
    for (const int64_t g : magnitudes) {
      std::vector<Term> high;
      std::vector<Term> low;
      for (const Term& term : terms) {
        if (term.coefficient % g == 0) {
          high.push_back({term.coefficient / g, term.atom});
        } else {
          low.push_back(term);
        }
      }
      const Interval rest = range_(Expr::sum(0, low));
      if (g == 1 || low.empty() || rest.empty() || !bounded(rest)) continue;
      const Interval& bounds = constraint.bounds;
      // A bound that the whole expression cannot pass is none, whatever the low part is.
      const Interval values = range_(constraint.expr);
      const bool below = bounds.lo <= values.lo;
      const bool above = bounds.hi >= values.hi;
      const Interval least{ceil_div(minus(bounds.lo, rest.hi), g), ceil_div(minus(bounds.lo, rest.lo), g)};
      const Interval most{floor_div(minus(bounds.hi, rest.hi), g), floor_div(minus(bounds.hi, rest.lo), g)};
      if ((!below && !least.is_point()) || (!above && !most.is_point())) continue;
      constraint = {Expr::sum(0, std::move(high)), {below ? kLeast : least.lo, above ? kGreatest : most.lo}};
      return true;
    }
    return false;
  }

  /// y / c in [lo, hi] is y in [lo * c, hi * c + c - 1].
  static bool of_quotient(Constraint& constraint) {
    const Expr expr = constraint.expr;
    if (expr.kind() != ExprKind::FloorDiv || !expr.rhs().is_constant()) return false;
    constraint = {expr.lhs(), of_dividend(constraint.bounds, expr.rhs().value())};
    return true;
  }

  static Interval of_dividend(const Interval& quotients, int64_t c) {
    Interval result = quotients;
    if (!unbounded(quotients.lo)) result.lo = saturating_mul(quotients.lo, c);
    if (!unbounded(quotients.hi)) result.hi = saturating_add(saturating_mul(quotients.hi, c), c - 1);
    return result;
  }

  /// Narrows the ranges of the variables of an expression that is known to lie in `bounds`.
  void imply(const Expr& expr, const Interval& bounds) {
    if (bounds.contains(range_(expr))) return;
    if (expr.is_variable()) {
      narrow_in_steps(expr, bounds);
    } else if (expr.kind() == ExprKind::FloorDiv && expr.rhs().is_constant()) {
      imply(expr.lhs(), of_dividend(bounds, expr.rhs().value()));
    } else if (expr.kind() == ExprKind::Mod && expr.rhs().is_constant() && expr.lhs().is_variable()) {
      const int64_t c = expr.rhs().value();
      narrow_in_steps(expr.lhs(), narrowed_to_remainders(range_(expr.lhs()), c, intersect(bounds, {0, c - 1})));
    } else if (expr.kind() == ExprKind::Sum) {
      const std::vector<Term> terms = expr.terms();
      for (size_t i = 0; i < terms.size(); ++i) {
        Interval rest{expr.offset(), expr.offset()};
        for (size_t j = 0; j < terms.size(); ++j) {
          if (j != i) rest = rest + range_(terms[j].atom) * terms[j].coefficient;
        }
        if (rest.empty()) return;
        const Interval part{unbounded(rest.hi) ? kLeast : minus(bounds.lo, rest.hi),
                            unbounded(rest.lo) ? kGreatest : minus(bounds.hi, rest.lo)};
        imply(terms[i].atom, divided(part, terms[i].coefficient));
      }
    }
  }

  void count_uses(const Expr& expr) {
    if (expr.is_variable()) {
      ++uses_[expr];
    } else if (expr.kind() == ExprKind::FloorDiv || expr.kind() == ExprKind::Mod) {
      count_uses(expr.lhs());
      count_uses(expr.rhs());
    } else if (expr.kind() == ExprKind::Product) {
      for (const Expr& factor : expr.factors()) count_uses(factor);
    } else if (expr.kind() == ExprKind::Sum) {
      for (const Term& term : expr.terms()) count_uses(term.atom);
    }
  }

  /// Constraints on the same variables, as x < y, y < z and z < x, may narrow each other's ranges by one again and
  /// again. So a variable that occurs more than once is narrowed by an eighth of its range or not at all.
  void narrow_in_steps(const Expr& variable, const Interval& bounds) {
    const Interval before = range_(variable);
    const int64_t after = intersect(before, bounds).size();
    if (uses_[variable] <= 1 || after <= before.size() - ceil_div(before.size(), 8)) narrow(variable, bounds);
  }

  /// The range of a runtime variable is what is known of its values; what is asked of them stays a constraint.
  void narrow(const Expr& variable, const Interval& bounds) {
    if (variable.kind() == ExprKind::Runtime) return;
    const auto i = static_cast<size_t>(variable.number());
    Interval& range = variable.kind() == ExprKind::Dimension ? map_.dims[i] : map_.ranges[i];
    range = intersect(range, bounds);
    map_.known_empty |= range.empty();
  }

  IndexingMap& map_;
  const IndexingMap before_;  ///< whose ranges count during a round, so that what is remembered stays true
  ExprRange range_;
  ExprSimplifier simplifier_;
  std::unordered_map<Expr, int, ExprHash> uses_;  ///< how often each variable occurs in the constraints
};

}  // namespace

void simplify_constraints(IndexingMap& map) {
  if (!map.constraints.empty()) Constraints(map).run();
}

}  // namespace strata::indexing
