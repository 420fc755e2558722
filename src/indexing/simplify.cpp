#include "indexing/simplify.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <unordered_map>
#include <unordered_set>

#include "indexing/constraints.h"
#include "indexing/simplify_expr.h"

namespace strata::indexing {
namespace {

/// Far more than are needed: a range shrinks by an eighth a round at least, and mostly there are two or three rounds.
constexpr int kMaxRounds = 1000;

bool empty_range(const IndexingMap& map) {
  const auto empty = [](const Interval& range) { return range.empty(); };
  return std::any_of(map.dims.begin(), map.dims.end(), empty) ||
         std::any_of(map.ranges.begin(), map.ranges.end(), empty) ||
         std::any_of(map.runtime.begin(), map.runtime.end(), [](const auto& v) { return v.range.empty(); });
}

IndexingMap empty_map(const IndexingMap& like, UnusedVariables unused) {
  IndexingMap map;
  map.known_empty = true;
  map.results.resize(like.results.size());
  if (unused != UnusedVariables::DropAll) map.dims.resize(like.dims.size());
  if (unused == UnusedVariables::Keep) {
    map.ranges.resize(like.ranges.size());
    map.runtime.resize(like.runtime.size());
  }
  return map;
}

/// The map with every expression rewritten.
void rewrite(IndexingMap& map, const std::function<Expr(const Expr&)>& rewritten) {
  for (Expr& result : map.results) result = rewritten(result);
  for (RuntimeVariable& variable : map.runtime) {
    for (Expr& index : variable.element) index = rewritten(index);
  }
  for (Constraint& constraint : map.constraints) constraint.expr = rewritten(constraint.expr);
}

/// Of runtime variables that are the same element of the same operand only the first is used afterwards.
void merge_runtime_variables(IndexingMap& map) {
  for (size_t i = 0; i < map.runtime.size(); ++i) {
    for (size_t j = i + 1; j < map.runtime.size(); ++j) {
      RuntimeVariable& a = map.runtime[i];
      RuntimeVariable& b = map.runtime[j];
      if (a.instruction != b.instruction || a.operand != b.operand || a.element != b.element) continue;
      a.range = b.range = intersect(a.range, b.range);
      const int from = static_cast<int>(j);
      const int to = static_cast<int>(i);
      rewrite(map, [&](const Expr& expr) {
        if (!expr.uses(ExprKind::Runtime, from)) return expr;
        return substitute(expr, [&](ExprKind kind, int number) {
          return Expr::variable(kind, kind == ExprKind::Runtime && number == from ? to : number);
        });
      });
    }
  }
}

/// Which variables occur in what it has been shown.
class Uses {
 public:
  explicit Uses(const IndexingMap& map)
      : dims(map.dims.size()), ranges(map.ranges.size()), runtime(map.runtime.size()) {
    for (const Expr& result : map.results) visit(result);
    for (const Constraint& constraint : map.constraints) visit(constraint.expr);
    // From the last, for elements name variables with smaller numbers.
    for (size_t i = map.runtime.size(); i-- > 0;) {
      if (!runtime[i]) continue;
      for (const Expr& index : map.runtime[i].element) visit(index);
    }
  }

  std::vector<bool> dims, ranges, runtime;

 private:
  void visit(const Expr& expr) {
    if (!seen_.insert(expr.id()).second) return;
    const auto i = static_cast<size_t>(expr.value());
    if (expr.kind() == ExprKind::Dimension) dims[i] = true;
    if (expr.kind() == ExprKind::Range) ranges[i] = true;
    if (expr.kind() == ExprKind::Runtime) runtime[i] = true;
    for (const Expr& operand : expr.operands()) visit(operand);
  }

  std::unordered_set<const void*> seen_;  ///< a shared node is visited once
};

/// Removes the variables that are not used; returns the new numbers of those that are.
template <class Variable>
std::vector<int> compact(std::vector<Variable>& variables, const std::vector<bool>& used) {
  std::vector<int> numbers(variables.size(), -1);
  std::vector<Variable> kept;
  for (size_t i = 0; i < variables.size(); ++i) {
    if (!used[i]) continue;
    numbers[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(variables[i]));
  }
  variables = std::move(kept);
  return numbers;
}

void drop_unused(IndexingMap& map, UnusedVariables unused) {
  if (unused == UnusedVariables::Keep) return;
  Uses uses(map);
  if (unused != UnusedVariables::DropAll) uses.dims.assign(uses.dims.size(), true);
  std::array<std::vector<int>, 3> numbers;
  numbers[0] = compact(map.dims, uses.dims);
  numbers[1] = compact(map.ranges, uses.ranges);
  numbers[2] = compact(map.runtime, uses.runtime);
  rewrite(map, [&](const Expr& expr) {
    return substitute(expr, [&](ExprKind kind, int number) {
      const size_t which = kind == ExprKind::Dimension ? 0 : kind == ExprKind::Range ? 1 : 2;
      return Expr::variable(kind, numbers[which][static_cast<size_t>(number)]);
    });
  });
}

void simplify_expressions(IndexingMap& map) {
  const IndexingMap before = map;
  ExprRange range(before, ExprRange::Facts::VariablesAndConstraints);
  ExprSimplifier simplifier(range);
  for (Expr& result : map.results) result = simplifier(result);
  for (RuntimeVariable& variable : map.runtime) {
    for (Expr& index : variable.element) index = simplifier(index);
  }
}

IndexingMap simplified(const IndexingMap& map, UnusedVariables unused) {
  IndexingMap result = map;
  for (int round = 0; round < kMaxRounds; ++round) {
    if (result.known_empty || empty_range(result)) return empty_map(map, unused);
    const IndexingMap before = result;
    simplify_constraints(result);
    if (result.known_empty) return empty_map(map, unused);
    simplify_expressions(result);
    merge_runtime_variables(result);
    drop_unused(result, unused);
    if (result == before) break;
  }
  return result;
}

struct MapHash {
  size_t operator()(const IndexingMap& map) const { return map.hash(); }
};

}  // namespace

IndexingMap simplify(const IndexingMap& map, UnusedVariables unused) {
  // A fusion pass simplifies the same maps for each group that it rates.
  constexpr size_t kMost = 4096;
  thread_local std::array<std::unordered_map<IndexingMap, IndexingMap, MapHash>, 3> known_maps;
  auto& known = known_maps[static_cast<size_t>(unused)];
  if (const auto found = known.find(map); found != known.end()) return found->second;
  IndexingMap result = simplified(map, unused);
  if (known.size() >= kMost) known.clear();
  known.emplace(map, result);
  return result;
}

Expr simplify(const Expr& expr, const IndexingMap& map, ExprRange::Facts facts) {
  ExprRange range(map, facts);
  return ExprSimplifier(range)(expr);
}

std::vector<Constraint> guards(const IndexingMap& map, const std::vector<Interval>& given_dims,
                               const std::vector<Interval>& given_ranges) {
  std::vector<Constraint> result;
  const auto variables = [&](ExprKind kind, const std::vector<Interval>& allowed, const std::vector<Interval>& given) {
    assert(allowed.size() == given.size());
    for (size_t i = 0; i < allowed.size(); ++i) {
      if (!allowed[i].contains(given[i])) result.push_back({Expr::variable(kind, static_cast<int>(i)), allowed[i]});
    }
  };
  variables(ExprKind::Dimension, map.dims, given_dims);
  variables(ExprKind::Range, map.ranges, given_ranges);
  result.insert(result.end(), map.constraints.begin(), map.constraints.end());
  return result;
}

}  // namespace strata::indexing
