#include "indexing/split_interior.h"

#include "indexing/expr_range.h"
#include "indexing/simplify.h"

namespace strata::indexing {
namespace {

struct Variable {
  ExprKind kind = ExprKind::Dimension;
  size_t number = 0;
};

Interval& range_of(IndexingMap& map, const Variable& variable) {
  return variable.kind == ExprKind::Dimension ? map.dims[variable.number] : map.ranges[variable.number];
}

bool implied(IndexingMap map, const Variable& variable, const Interval& range, const Constraint& constraint) {
  range_of(map, variable) = range;
  ExprRange values(map);
  return constraint.bounds.contains(values(constraint.expr));
}

/// Where a range is cut in two.
struct Cut {
  Variable variable;
  Interval kept;
  Interval edge;
  double share = 0;  ///< of the range that is kept
};

/// The greatest part of the variable's range, from one end of it, that implies the constraint. Interval analysis of a
/// part never gives more than that of the whole, so bisection finds it.
std::optional<Cut> best_cut(const IndexingMap& map, const Variable& variable, const Constraint& constraint) {
  const Interval range = variable.kind == ExprKind::Dimension ? map.dims[variable.number] : map.ranges[variable.number];
  const auto greatest = [&](auto part) {
    int64_t good = 0;
    int64_t bad = range.size();  // the whole range does not imply it
    while (bad - good > 1) {
      const int64_t middle = good + (bad - good) / 2;
      (implied(map, variable, part(middle), constraint) ? good : bad) = middle;
    }
    return good;
  };
  const auto front = [&](int64_t size) { return Interval{range.lo, range.lo + size - 1}; };
  const auto back = [&](int64_t size) { return Interval{range.hi - size + 1, range.hi}; };
  const int64_t at_front = greatest(front);
  const int64_t at_back = greatest(back);
  const int64_t size = std::max(at_front, at_back);
  if (size == 0) return std::nullopt;
  const double share = static_cast<double>(size) / static_cast<double>(range.size());
  if (at_front >= at_back) return Cut{variable, front(size), {range.lo + size, range.hi}, share};
  return Cut{variable, back(size), {range.lo, range.hi - size}, share};
}

std::vector<Variable> variables_of(const IndexingMap& map, const Expr& expr) {
  std::vector<Variable> result;
  const auto add = [&](ExprKind kind, const std::vector<Interval>& ranges) {
    for (size_t i = 0; i < ranges.size(); ++i) {
      const bool cuttable = ranges[i].size() > 1 && ranges[i].size() < kGreatest;
      if (cuttable && expr.uses(kind, static_cast<int>(i))) result.push_back({kind, i});
    }
  };
  add(ExprKind::Dimension, map.dims);
  add(ExprKind::Range, map.ranges);
  return result;
}

}  // namespace

InteriorSplit split_interior(const IndexingMap& map) {
  InteriorSplit split;
  IndexingMap rest = simplify(map, UnusedVariables::Keep);
  const IndexingMap nothing = [&] {
    IndexingMap empty = rest;
    empty.known_empty = true;
    return simplify(empty, UnusedVariables::Keep);
  }();
  const auto add_edge = [&](const IndexingMap& edge) {
    if (IndexingMap simple = simplify(edge, UnusedVariables::Keep); !simple.known_empty) {
      split.edges.push_back(std::move(simple));
    }
  };
  const std::vector<Constraint> constraints = rest.constraints;
  for (const Constraint& constraint : constraints) {
    // Each side by itself: a linear expression is cut at one end of a variable's range for each.
    for (const Interval& side : {Interval{constraint.bounds.lo, kGreatest}, Interval{kLeast, constraint.bounds.hi}}) {
      ExprRange values(rest);
      if (side.contains(values(constraint.expr))) continue;
      std::optional<Cut> best;
      for (const Variable& variable : variables_of(rest, constraint.expr)) {
        const auto cut = best_cut(rest, variable, {constraint.expr, side});
        if (cut && (!best || cut->share > best->share)) best = cut;
      }
      if (!best) {
        add_edge(rest);
        split.interior = nothing;
        return split;
      }
      IndexingMap edge = rest;
      range_of(edge, best->variable) = best->edge;
      add_edge(edge);
      range_of(rest, best->variable) = best->kept;
    }
  }
  rest.constraints.clear();  // the ranges imply them now
  split.interior = simplify(rest, UnusedVariables::Keep);
  return split;
}

}  // namespace strata::indexing
