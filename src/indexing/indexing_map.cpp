#include "indexing/indexing_map.h"

#include <algorithm>
#include <cassert>

#include "indexing/expr_range.h"
#include "support/hash.h"

namespace strata::indexing {
namespace {

void hash_interval(Hasher& hasher, const Interval& interval) {
  hasher.add(static_cast<uint64_t>(interval.lo)).add(static_cast<uint64_t>(interval.hi));
}

void hash_exprs(Hasher& hasher, const std::vector<Expr>& exprs) {
  hasher.add(exprs.size());
  for (const Expr& expr : exprs) hasher.add(expr.hash());
}

bool any_undefined(const std::vector<Expr>& exprs) {
  return std::any_of(exprs.begin(), exprs.end(), [](const Expr& expr) { return expr.is_undefined(); });
}

bool all_contain(const std::vector<Interval>& intervals, std::span<const int64_t> values) {
  assert(intervals.size() <= values.size());
  for (size_t i = 0; i < intervals.size(); ++i) {
    if (!intervals[i].contains(values[i])) return false;
  }
  return true;
}

}  // namespace

uint64_t IndexingMap::hash() const {
  Hasher hasher;
  hash_exprs(hasher, results);
  hasher.add(dims.size()).add(ranges.size()).add(runtime.size()).add(constraints.size()).add(known_empty ? 1 : 0);
  for (const Interval& interval : dims) hash_interval(hasher, interval);
  for (const Interval& interval : ranges) hash_interval(hasher, interval);
  for (const RuntimeVariable& variable : runtime) {
    hasher.add(static_cast<uint64_t>(variable.instruction)).add(static_cast<uint64_t>(variable.operand));
    hash_exprs(hasher, variable.element);
    hash_interval(hasher, variable.range);
  }
  for (const Constraint& constraint : constraints) {
    hasher.add(constraint.expr.hash());
    hash_interval(hasher, constraint.bounds);
  }
  return hasher.value();
}

const Interval& IndexingMap::range_of(ExprKind kind, int number) const {
  const auto i = static_cast<size_t>(number);
  if (kind == ExprKind::Dimension) return dims[i];
  if (kind == ExprKind::Range) return ranges[i];
  assert(kind == ExprKind::Runtime);
  return runtime[i].range;
}

int64_t IndexingMap::cost() const {
  int64_t total = 0;
  for (const Expr& result : results) total = saturating_add(total, result.cost());
  for (const Constraint& constraint : constraints) total = saturating_add(total, constraint.expr.cost());
  return total;
}

bool IndexingMap::is_undefined() const {
  return any_undefined(results) ||
         std::any_of(runtime.begin(), runtime.end(), [](const auto& v) { return any_undefined(v.element); }) ||
         std::any_of(constraints.begin(), constraints.end(), [](const auto& c) { return c.expr.is_undefined(); });
}

IndexingMap identity_map(const std::vector<int64_t>& shape) {
  IndexingMap map;
  map.dims = positions(shape);
  for (size_t i = 0; i < shape.size(); ++i) map.results.push_back(Expr::dim(static_cast<int>(i)));
  return map;
}

bool in_domain(const IndexingMap& map, const Point& point) {
  if (map.known_empty || !all_contain(map.dims, point.dims) || !all_contain(map.ranges, point.ranges)) return false;
  for (size_t i = 0; i < map.runtime.size(); ++i) {
    if (!map.runtime[i].range.contains(point.runtime[i])) return false;
  }
  return std::all_of(map.constraints.begin(), map.constraints.end(), [&](const Constraint& constraint) {
    const auto value = evaluate(constraint.expr, point);
    return value && constraint.bounds.contains(*value);
  });
}

std::optional<std::vector<int64_t>> evaluate(const IndexingMap& map, const Point& point) {
  std::vector<int64_t> values;
  for (const Expr& result : map.results) {
    const auto value = evaluate(result, point);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

IndexingMap compose(const IndexingMap& first, const IndexingMap& second) {
  assert(first.results.size() == second.dims.size());
  IndexingMap result = first;
  result.known_empty = first.known_empty || second.known_empty;
  result.ranges.insert(result.ranges.end(), second.ranges.begin(), second.ranges.end());
  const int range_shift = static_cast<int>(first.ranges.size());
  const int runtime_shift = static_cast<int>(first.runtime.size());
  const Replacement replacement = [&](ExprKind kind, int number) {
    if (kind == ExprKind::Dimension) return first.results[static_cast<size_t>(number)];
    return Expr::variable(kind, number + (kind == ExprKind::Range ? range_shift : runtime_shift));
  };
  result.results = substitute(second.results, replacement);
  for (RuntimeVariable variable : second.runtime) {
    variable.element = substitute(variable.element, replacement);
    result.runtime.push_back(std::move(variable));
  }
  ExprRange ranges(first);
  for (size_t i = 0; i < second.dims.size(); ++i) {
    if (second.dims[i].contains(ranges(first.results[i]))) continue;
    result.constraints.push_back({first.results[i], second.dims[i]});
  }
  for (const Constraint& constraint : second.constraints) {
    result.constraints.push_back({substitute(constraint.expr, replacement), constraint.bounds});
  }
  return result;
}

Result<std::vector<int64_t>> row_major_strides(const std::vector<int64_t>& shape) {
  const auto count = element_count(shape);
  if (!count) return invalid("a shape of {} dimensions has more than 2^63 - 1 elements", shape.size());
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) {
    // With a zero extent no element is ever addressed, and the strides may be anything that fits.
    strides[i - 1] = saturating_mul(strides[i], std::max<int64_t>(shape[i], 1));
  }
  return strides;
}

Expr linearize(const std::vector<Expr>& index, const std::vector<int64_t>& strides) {
  assert(index.size() == strides.size());
  Expr position;
  for (size_t i = 0; i < index.size(); ++i) position = position + index[i] * strides[i];
  return position;
}

std::vector<Expr> delinearize(const Expr& position, const std::vector<int64_t>& shape) {
  const auto strides = row_major_strides(shape);
  if (!strides) return std::vector<Expr>(shape.size(), Expr::undefined());
  std::vector<Expr> index;
  for (size_t i = 0; i < shape.size(); ++i) {
    const Expr quotient = floor_div(position, (*strides)[i]);
    index.push_back(i == 0 ? quotient : mod(quotient, std::max<int64_t>(shape[i], 1)));
  }
  return index;
}

}  // namespace strata::indexing
