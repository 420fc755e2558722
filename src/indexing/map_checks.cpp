#include "indexing/map_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <map>
#include <set>

#include "indexing/enumerate.h"
#include "indexing/expr_range.h"
#include "indexing/simplify.h"
#include "indexing/thread_maps.h"

namespace strata::indexing {
namespace {

/// A digit of a variable: (v floordiv divisor) mod extent, times its coefficient in a sum.
struct Digit {
  Expr variable;
  int64_t divisor = 1;
  int64_t extent = 1;
  int64_t coefficient = 0;
  Expr atom;
};

/// Proves that maps count: see writes_bijectively.
class Counting {
 public:
  explicit Counting(const IndexingMap& map) : map_(map), pending_(map.constraints) {}

  /// The interval through which the sum counts, if its digits are independent of each other.
  std::optional<Interval> counts_through(const Expr& expr) {
    std::vector<Digit> digits;
    int64_t first = expr.offset();
    for (const Term& term : expr.terms()) {
      std::optional<Digit> digit = digit_of(term);
      if (!digit) return std::nullopt;
      const Interval range = map_.range_of(digit->variable.kind(), digit->variable.number());
      // A variable that does not start at 0 starts the sum elsewhere; one with a negative coefficient counts backwards.
      first = saturating_add(first, saturating_mul(term.coefficient, range.lo));
      if (term.coefficient < 0) first = saturating_add(first, saturating_mul(term.coefficient, digit->extent - 1));
      used_[digit->variable].push_back(*digit);
      digits.push_back(std::move(*digit));
    }
    const auto magnitude = [](const Digit& digit) {
      return digit.coefficient < 0 ? -digit.coefficient : digit.coefficient;
    };
    std::sort(digits.begin(), digits.end(),
              [&](const Digit& a, const Digit& b) { return magnitude(a) < magnitude(b); });
    int64_t count = 1;
    Expr high = expr - expr.offset();
    Interval kept{0, kGreatest};  // of the value without `first`
    for (const Digit& digit : digits) {
      if (magnitude(digit) != count) return std::nullopt;
      if (!cut_off(high, count, expr.offset() == first, kept)) return std::nullopt;
      high = high - digit.atom * digit.coefficient;
      count = saturating_mul(count, digit.extent);
    }
    const Interval values = intersect(kept, {0, count - 1});
    if (values.empty() || first == kLeast || first == kGreatest || count == kGreatest) return std::nullopt;
    return Interval{saturating_add(values.lo, first), saturating_add(values.hi, first)};
  }

  /// Whether every variable is counted by its digits completely, and every constraint has been understood.
  bool complete() {
    if (!pending_.empty()) return false;
    const auto covered = [&](ExprKind kind, const std::vector<Interval>& ranges) {
      for (size_t i = 0; i < ranges.size(); ++i) {
        if (ranges[i].is_point()) continue;
        const auto used = used_.find(Expr::variable(kind, static_cast<int>(i)));
        if (used == used_.end()) return false;
        std::vector<Digit>& digits = used->second;
        std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.divisor < b.divisor; });
        int64_t count = 1;
        for (const Digit& digit : digits) {
          if (digit.divisor != count) return false;
          count = saturating_mul(count, digit.extent);
        }
        if (count != ranges[i].size()) return false;
      }
      return true;
    };
    return covered(ExprKind::Dimension, map_.dims) && covered(ExprKind::Range, map_.ranges);
  }

 private:
  std::optional<Digit> digit_of(const Term& term) const {
    Expr rest = term.atom;
    std::optional<int64_t> extent;
    if (rest.kind() == ExprKind::Mod && rest.rhs().is_constant()) {
      extent = rest.rhs().value();
      rest = Expr(rest.lhs());
    }
    int64_t divisor = 1;
    if (rest.kind() == ExprKind::FloorDiv && rest.rhs().is_constant()) {
      divisor = rest.rhs().value();
      rest = Expr(rest.lhs());
    }
    if (!rest.is_variable() || rest.kind() == ExprKind::Runtime) return std::nullopt;
    const Interval range = map_.range_of(rest.kind(), rest.number());
    const bool whole = rest == term.atom;
    if (range.empty() || range.size() == kGreatest || (!whole && range.lo != 0)) return std::nullopt;
    // The digits are independent only if each takes all its values equally often.
    const int64_t above = range.size() / divisor;
    if (range.size() % divisor != 0 || (extent && above % *extent != 0)) return std::nullopt;
    return Digit{rest, divisor, extent.value_or(above), term.coefficient, term.atom};
  }

  /// Takes in the constraints on high / unit, all of whose terms are multiples of `unit`: what is left of it, with what
  /// lies below, in [lo * unit, (hi + 1) * unit - 1].
  bool cut_off(const Expr& high, int64_t unit, bool from_zero, Interval& kept) {
    std::vector<Term> terms = high.terms();
    for (Term& term : terms) {
      if (term.coefficient % unit != 0) return true;  // the next digits will show that these are not counting
      term.coefficient /= unit;
    }
    const Expr divided = Expr::sum(0, std::move(terms));
    for (size_t i = 0; i < pending_.size(); ++i) {
      if (pending_[i].expr != divided) continue;
      if (!from_zero) return false;
      const Interval bounds = pending_[i].bounds;
      kept =
          intersect(kept, {saturating_mul(bounds.lo, unit), saturating_add(saturating_mul(bounds.hi, unit), unit - 1)});
      pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    return true;
  }

  const IndexingMap& map_;
  std::vector<Constraint> pending_;
  std::map<Expr, std::vector<Digit>> used_;
};

bool bijective_by_position(const IndexingMap& map, const std::vector<int64_t>& shape) {
  const auto count = element_count(shape);
  if (!count) return false;
  const IndexingMap linear = linear_form(map, shape);
  if (linear.known_empty) return *count == 0;
  Counting counting(linear);
  return counting.counts_through(linear.results[0]) == below(*count) && counting.complete();
}

bool bijective_by_index(const IndexingMap& map, const std::vector<int64_t>& shape) {
  if (map.known_empty) return element_count(shape) == 0;
  Counting counting(map);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (counting.counts_through(map.results[i]) != below(shape[i])) return false;
  }
  return counting.complete();
}

bool within(const std::vector<int64_t>& index, const std::vector<int64_t>& shape) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!below(shape[i]).contains(index[i])) return false;
  }
  return true;
}

std::string text_of(const Point& point) {
  std::vector<std::string> values;
  for (size_t i = 0; i < point.dims.size(); ++i) values.push_back(fmt::format("d{} = {}", i, point.dims[i]));
  for (size_t i = 0; i < point.ranges.size(); ++i) values.push_back(fmt::format("s{} = {}", i, point.ranges[i]));
  for (size_t i = 0; i < point.runtime.size(); ++i) values.push_back(fmt::format("rt{} = {}", i, point.runtime[i]));
  return fmt::format("{}", fmt::join(values, ", "));
}

/// Nothing, or what is wrong with the first point that reads or writes outside of the shape.
std::string outside(const std::optional<std::vector<int64_t>>& index, const std::vector<int64_t>& shape,
                    const Point& point) {
  if (!index) return fmt::format("the index at {} has no value", text_of(point));
  if (within(*index, shape)) return {};
  return fmt::format("the index [{}] at {} lies outside of [{}]", fmt::join(*index, ", "), text_of(point),
                     fmt::join(shape, ", "));
}

Verdict enumerated(std::string reason, const IndexingMap& map) {
  if (!reason.empty()) return {Verdict::Kind::Refuted, std::move(reason)};
  return {Verdict::Kind::ProvedByEnumeration, fmt::format("{} points tried", box_size(map))};
}

}  // namespace

Verdict writes_bijectively(const IndexingMap& map, const std::vector<int64_t>& shape, int64_t max_points) {
  assert(map.results.size() == shape.size());
  if (!map.runtime.empty()) return {Verdict::Kind::Unknown, "places known at run time only"};
  const IndexingMap simple = simplify(map, UnusedVariables::Keep);
  if (bijective_by_position(simple, shape)) return {Verdict::Kind::ProvedByStructure, "the positions count"};
  if (bijective_by_index(simple, shape)) return {Verdict::Kind::ProvedByStructure, "each index counts"};
  if (box_size(simple) > max_points) {
    return {Verdict::Kind::Unknown, fmt::format("more than {} points", max_points)};
  }
  std::set<std::vector<int64_t>> written;
  std::string reason;
  for_each_point(simple, [&](const Point& point) {
    const auto index = evaluate(simple, point);
    reason = outside(index, shape, point);
    if (reason.empty() && !written.insert(*index).second) {
      reason = fmt::format("[{}] is written twice, also at {}", fmt::join(*index, ", "), text_of(point));
    }
    return reason.empty();
  });
  const auto count = element_count(shape);
  if (reason.empty() && static_cast<int64_t>(written.size()) != count) {
    reason = fmt::format("{} elements of {} are written", written.size(), count.value_or(kGreatest));
  }
  return enumerated(std::move(reason), simple);
}

Verdict reads_in_bounds(const IndexingMap& map, const std::vector<int64_t>& shape, int64_t max_points) {
  assert(map.results.size() == shape.size());
  const IndexingMap simple = simplify(map);
  if (simple.known_empty) return {Verdict::Kind::ProvedByStructure, "nothing is read"};
  ExprRange range(simple, ExprRange::Facts::VariablesAndConstraints);
  bool inside = true;
  for (size_t i = 0; i < shape.size(); ++i) inside = inside && below(shape[i]).contains(range(simple.results[i]));
  if (inside && !simple.is_undefined()) return {Verdict::Kind::ProvedByStructure, "by the ranges of the indices"};
  if (box_size(simple) > max_points) {
    return {Verdict::Kind::Unknown, fmt::format("more than {} points", max_points)};
  }
  std::string reason;
  for_each_point(simple, [&](const Point& point) {
    reason = outside(evaluate(simple, point), shape, point);
    return reason.empty();
  });
  return enumerated(std::move(reason), simple);
}

}  // namespace strata::indexing
