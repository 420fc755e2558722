#include "indexing/inverse.h"

#include <algorithm>
#include <cassert>

#include "indexing/simplify.h"

namespace strata::indexing {
namespace {

/// Variables of the inverse: its dimensions are the element read; its ranges are the dimensions and then the ranges of
/// the map that is turned around.
IndexingMap relation(const IndexingMap& map, const std::vector<Interval>& read) {
  const int shift = static_cast<int>(map.dims.size());
  const Replacement to_ranges = [&](ExprKind kind, int number) {
    if (kind == ExprKind::Runtime) return Expr::runtime(number);
    return Expr::range(kind == ExprKind::Dimension ? number : number + shift);
  };
  IndexingMap result;
  result.known_empty = map.known_empty;
  result.dims = read;
  result.ranges = map.dims;
  result.ranges.insert(result.ranges.end(), map.ranges.begin(), map.ranges.end());
  for (int i = 0; i < shift; ++i) result.results.push_back(Expr::range(i));
  for (RuntimeVariable variable : map.runtime) {
    variable.element = substitute(variable.element, to_ranges);
    result.runtime.push_back(std::move(variable));
  }
  for (const Constraint& constraint : map.constraints) {
    result.constraints.push_back({substitute(constraint.expr, to_ranges), constraint.bounds});
  }
  for (size_t i = 0; i < map.results.size(); ++i) {
    result.constraints.push_back({substitute(map.results[i], to_ranges) - Expr::dim(static_cast<int>(i)), {0, 0}});
  }
  return result;
}

struct Solution {
  int range = 0;  ///< the variable, for which there is
  Expr value;
  std::vector<Constraint> conditions;
};

/// Whether it depends on that range variable which element some runtime variable is.
bool indexes_runtime(const IndexingMap& map, int range) {
  return std::any_of(map.runtime.begin(), map.runtime.end(), [&](const RuntimeVariable& variable) {
    return std::any_of(variable.element.begin(), variable.element.end(),
                       [&](const Expr& index) { return index.uses(ExprKind::Range, range); });
  });
}

/// Solves expr = 0 for a range variable that occurs once and linearly: with coefficient 1 or -1 if there is one, and
/// for a variable of lower number rather than a higher one. Not by a runtime variable that itself depends on the range.
std::optional<Solution> solve(const Expr& expr, const IndexingMap& map) {
  const std::vector<Term> terms = expr.terms();
  const Term* best = nullptr;
  const auto magnitude = [](const Term& term) { return term.coefficient < 0 ? -term.coefficient : term.coefficient; };
  for (const Term& term : terms) {
    if (term.atom.kind() != ExprKind::Range) continue;
    const auto uses = std::count_if(terms.begin(), terms.end(), [&](const Term& other) {
      return other.atom.uses(ExprKind::Range, term.atom.number());
    });
    if (uses != 1 || (expr.uses(ExprKind::Runtime) && indexes_runtime(map, term.atom.number()))) continue;
    if (best == nullptr || magnitude(term) < magnitude(*best)) best = &term;
  }
  if (best == nullptr) return std::nullopt;
  // a * v + rest = 0: v = -rest / a, which must divide.
  const Expr negative_rest = best->atom * best->coefficient - expr;
  const Expr numerator = best->coefficient < 0 ? negative_rest * -1 : negative_rest;
  const int64_t a = magnitude(*best);
  Solution solution{best->atom.number(), floor_div(numerator, a), {}};
  if (a > 1) solution.conditions.push_back({mod(numerator, a), {0, 0}});
  solution.conditions.push_back({solution.value, map.ranges[static_cast<size_t>(solution.range)]});
  return solution;
}

/// Replaces the variable by its value everywhere; it stays, unused.
void apply(const Solution& solution, IndexingMap& map) {
  const Replacement replacement = [&](ExprKind kind, int number) {
    return kind == ExprKind::Range && number == solution.range ? solution.value : Expr::variable(kind, number);
  };
  map.results = substitute(map.results, replacement);
  for (RuntimeVariable& variable : map.runtime) variable.element = substitute(variable.element, replacement);
  for (Constraint& constraint : map.constraints) constraint.expr = substitute(constraint.expr, replacement);
  map.constraints.insert(map.constraints.end(), solution.conditions.begin(), solution.conditions.end());
}

}  // namespace

IndexingMap inverse(const IndexingMap& map, const std::vector<Interval>& read) {
  assert(map.results.size() == read.size());
  IndexingMap result = simplify(relation(map, read), UnusedVariables::Keep);
  for (size_t i = 0; i < result.constraints.size();) {
    const Constraint constraint = result.constraints[i];
    std::optional<Solution> solution;
    if (constraint.bounds.is_point()) solution = solve(constraint.expr - constraint.bounds.lo, result);
    if (!solution || solution->value.is_undefined()) {
      ++i;
      continue;
    }
    result.constraints.erase(result.constraints.begin() + static_cast<std::ptrdiff_t>(i));
    apply(*solution, result);
    result = simplify(result, UnusedVariables::Keep);
    i = 0;  // another constraint may have become solvable
  }
  return simplify(result);
}

}  // namespace strata::indexing
