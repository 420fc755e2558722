#include "indexing/index_type.h"

#include <algorithm>

#include "indexing/expr_range.h"

namespace strata::indexing {
namespace {

class Widths {
 public:
  explicit Widths(const IndexingMap& map) : range_(map) {}

  /// Extends the interval by all that is computed on the way to the expression's value.
  void visit(const Expr& expr) {
    if (expr.is_undefined()) add(kEverything);
    if (expr.kind() == ExprKind::FloorDiv || expr.kind() == ExprKind::Mod) {
      visit(expr.lhs());
      visit(expr.rhs());
    } else if (expr.kind() == ExprKind::Product) {
      // From the left: no factor may be zero to save what comes before it.
      Interval product{1, 1};
      for (const Expr& factor : expr.factors()) {
        visit(factor);
        product = product * range_(factor);
        add(product);
      }
    } else if (expr.kind() == ExprKind::Sum) {
      // Any order of adding up stays within the sum of what is negative and the sum of what is positive.
      Interval partial{std::min<int64_t>(expr.offset(), 0), std::max<int64_t>(expr.offset(), 0)};
      for (const Term& term : expr.terms()) {
        visit(term.atom);
        add({term.coefficient, term.coefficient});
        const Interval part = range_(term.atom) * term.coefficient;
        if (!part.empty()) partial = partial + Interval{std::min<int64_t>(part.lo, 0), std::max<int64_t>(part.hi, 0)};
      }
      add(partial);
    }
    add(range_(expr));
  }

  void add(const Interval& values) {
    if (values.empty()) return;
    all_ = {std::min(all_.lo, values.lo), std::max(all_.hi, values.hi)};
  }

  const Interval& all() const { return all_; }

 private:
  ExprRange range_;
  Interval all_{0, 0};
};

}  // namespace

std::optional<IndexType> narrowest_index_type(const IndexingMap& given) {
  IndexingMap map = given;
  for (const Constraint& constraint : given.constraints) {
    if (constraint.expr.kind() != ExprKind::Runtime) continue;
    Interval& range = map.runtime[static_cast<size_t>(constraint.expr.number())].range;
    range = intersect(range, constraint.bounds);
  }
  Widths widths(map);
  for (const Expr& result : map.results) widths.visit(result);
  for (const Constraint& constraint : map.constraints) widths.visit(constraint.expr);
  for (const RuntimeVariable& variable : map.runtime) {
    for (const Expr& index : variable.element) widths.visit(index);
  }
  for (const auto* intervals : {&map.dims, &map.ranges}) {
    for (const Interval& interval : *intervals) widths.add(interval);
  }
  // kLeast and kGreatest stand for what does not fit; INT32_MIN has no negation, which code may need.
  const Interval& all = widths.all();
  if (all.lo > INT32_MIN && all.hi <= INT32_MAX) return IndexType::I32;
  if (all.lo > kLeast && all.hi < kGreatest) return IndexType::I64;
  return std::nullopt;
}

}  // namespace strata::indexing
