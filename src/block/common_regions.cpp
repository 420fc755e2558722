#include <algorithm>
#include <cstdlib>
#include <set>

#include "block/overlap.h"
#include "indexing/simplify.h"

namespace strata {

using indexing::Constraint;
using indexing::Expr;
using indexing::ExprKind;
using indexing::ExprRange;
using indexing::IndexingMap;
using indexing::Interval;
using indexing::kGreatest;
using indexing::kLeast;
using indexing::saturating_add;
using indexing::saturating_mul;
using indexing::Term;

namespace {

/// The map with runtime variables as range variables: each may have any value of its range.
IndexingMap without_runtime(const IndexingMap& map) {
  IndexingMap made = map;
  const int first = static_cast<int>(map.ranges.size());
  for (const auto& variable : map.runtime) made.ranges.push_back(variable.range);
  made.runtime.clear();
  const auto replace = [&](const Expr& expr) {
    return substitute(expr, [&](ExprKind kind, int number) {
      return kind == ExprKind::Runtime ? Expr::range(first + number) : Expr::variable(kind, number);
    });
  };
  for (Expr& result : made.results) result = replace(result);
  for (Constraint& constraint : made.constraints) constraint.expr = replace(constraint.expr);
  return made;
}

bool uses_ranges(const Expr& expr) { return expr.uses(ExprKind::Range); }
/// Whether it has a value for every block: divisors are constants.
bool has_value(const Expr& expr) {
  const bool divides = expr.kind() == ExprKind::FloorDiv || expr.kind() == ExprKind::Mod;
  if (expr.is_undefined() || (divides && !expr.rhs().is_constant())) return false;
  return std::all_of(expr.operands().begin(), expr.operands().end(), has_value);
}

bool uses_blocks(const Expr& expr) { return expr.uses(ExprKind::Dimension); }

/// One of the two maps while its index is cut into digits.
class Regions {
 public:
  explicit Regions(const IndexingMap& given) : runtime_(!given.runtime.empty()) {
    for (const Interval& dim : given.dims) grid_.push_back(dim.hi + 1);
    map_ = simplify(without_runtime(given));
  }

  const IndexingMap& map() const { return map_; }
  /// Simplified where the map is defined.
  Expr simple(const Expr& expr) const { return simplify(expr, map_, ExprRange::Facts::VariablesAndConstraints); }

  /// Whether block coordinates and elements of the region are added up, so that the region is as long for all blocks,
  /// and where it begins can be solved for the block.
  bool separable(const Expr& expr) const {
    const std::vector<Term> terms = expr.terms();
    return std::all_of(terms.begin(), terms.end(), one_sided);
  }

  /// Whether it is, and the region along the expression has no gaps.
  bool good(const Expr& expr) const { return separable(expr) && axis(expr).contiguous; }

  RegionAxis axis(const Expr& expr) const {
    RegionAxis axis;
    axis.first = Expr::constant(expr.offset());
    std::vector<std::pair<int64_t, int64_t>> inner;  // coefficients, and how far the values reach
    for (const Term& term : expr.terms()) {
      if (!uses_ranges(term.atom) && has_value(term.atom)) {
        axis.first = axis.first + term.atom * term.coefficient;
        continue;
      }
      const auto [low, values] = bounds(term.atom);
      const bool down = term.coefficient < 0;
      const Expr start = low + (down ? values.hi : values.lo);
      axis.first = axis.first + start * term.coefficient;
      inner.emplace_back(std::abs(term.coefficient), saturating_add(values.size(), -1));
      if (uses_blocks(term.atom) || !is_digit(term.atom)) axis.contiguous = false;
    }
    std::sort(inner.begin(), inner.end());
    for (const auto& [coefficient, reach] : inner) {
      if (reach == 0) continue;
      if (coefficient > axis.length) axis.contiguous = false;
      axis.length = saturating_add(axis.length, saturating_mul(coefficient, reach));
    }
    axis.first = simple(axis.first);
    return axis;
  }

  GridRegions finish(const std::vector<Expr>& exprs) const {
    GridRegions regions{grid_, map_.dims, {}, !runtime_, map_.known_empty};
    if (map_.known_empty) return regions;
    for (const Expr& expr : exprs) {
      regions.axes.push_back(axis(expr));
      regions.exact = regions.exact && good(expr);
    }
    regions.exact = regions.exact && independent(exprs);
    for (const Constraint& constraint : map_.constraints) regions.exact &= clip(constraint, exprs, regions.axes);
    return regions;
  }

 private:
  /// Of the elements alone, or a digit of a coordinate.
  static bool one_sided(const Term& term) {
    return uses_ranges(term.atom) ? !uses_blocks(term.atom) : digit_of(term.atom).has_value();
  }

  /// A digit of a range variable that takes all its values, whatever the variable's other digits are.
  bool is_digit(const Expr& atom) const {
    const auto digit = digit_of(atom);
    if (!digit || digit->variable.kind() != ExprKind::Range) return false;
    const Interval& range = map_.ranges[static_cast<size_t>(digit->variable.number())];
    if (digit->divisor == 1 && digit->extent == kGreatest) return true;
    const bool complete = digit->extent == kGreatest || range.size() / digit->divisor % digit->extent == 0;
    return range.lo == 0 && range.size() % digit->divisor == 0 && complete;
  }

  /// An atom lies in low + values.
  std::pair<Expr, Interval> bounds(const Expr& atom) const {
    ExprRange range(map_);
    if (uses_blocks(atom) && has_value(atom) && atom.kind() == ExprKind::FloorDiv) {
      // (x + r) floordiv c lies between those of the least r and of the greatest.
      Expr blocks = Expr::constant(atom.lhs().offset());
      Interval rest{0, 0};
      bool pure = true;
      for (const Term& term : atom.lhs().terms()) {
        if (!uses_ranges(term.atom)) {
          blocks = blocks + term.atom * term.coefficient;
        } else {
          pure = pure && !uses_blocks(term.atom);
          rest = rest + range(term.atom) * term.coefficient;
        }
      }
      const int64_t c = atom.rhs().value();
      if (pure) return {floor_div(blocks + rest.lo, c), {0, indexing::ceil_div(rest.hi - rest.lo, c)}};
    }
    return {Expr(), range(atom)};
  }

  /// Whether no value along one digit depends on those along others: each digit of a range variable occurs once.
  bool independent(const std::vector<Expr>& exprs) const {
    std::vector<std::vector<std::pair<int64_t, int64_t>>> used(map_.ranges.size());
    for (const Expr& expr : exprs) {
      for (const Term& term : expr.terms()) {
        if (!uses_ranges(term.atom)) continue;
        const auto digit = digit_of(term.atom);
        if (!digit) return false;
        const auto number = static_cast<size_t>(digit->variable.number());
        const int64_t size = map_.ranges[number].size();
        const int64_t extent = digit->extent == kGreatest ? size / digit->divisor : digit->extent;
        used[number].emplace_back(digit->divisor, saturating_mul(digit->divisor, extent));
      }
    }
    for (auto& digits : used) {
      std::sort(digits.begin(), digits.end());
      for (size_t i = 1; i < digits.size(); ++i) {
        if (digits[i].first % digits[i - 1].second != 0) return false;
      }
    }
    return true;
  }

  /// Whether the constraint says no more than that the index along some digit lies in an interval.
  bool clip(const Constraint& constraint, const std::vector<Expr>& exprs, std::vector<RegionAxis>& axes) const {
    const auto terms = constraint.expr.terms();
    for (size_t i = 0; i < exprs.size() && !terms.empty(); ++i) {
      int64_t factor = 0;
      for (const Term& term : exprs[i].terms()) {
        if (term.atom == terms[0].atom && term.coefficient % terms[0].coefficient == 0) {
          factor = term.coefficient / terms[0].coefficient;
        }
      }
      const Expr rest = exprs[i] - constraint.expr * factor;
      if (factor == 0 || !rest.is_constant()) continue;
      const Interval bounds = constraint.bounds * factor;
      axes[i].clip = indexing::intersect(
          axes[i].clip, {saturating_add(bounds.lo, rest.value()), saturating_add(bounds.hi, rest.value())});
      return true;
    }
    return false;
  }

  bool runtime_;
  std::vector<int64_t> grid_;
  IndexingMap map_;
};

using Cut = std::pair<std::vector<Expr>, std::vector<Expr>>;

/// Cuts an index of this many elements where all that lies below the cut is an interval in both maps.
class Cutter {
 public:
  Cutter(const Regions& write, const Regions& read) : write_(write), read_(read) {}

  Cut run(Expr write, Expr read, int64_t extent, std::vector<int64_t> wanted) const {
    std::set<int64_t> candidates(wanted.begin(), wanted.end());
    const auto add = [&](const Regions& regions, const Expr& expr) {
      ExprRange range(regions.map());
      for (const Term& term : expr.terms()) {
        const int64_t step = std::abs(term.coefficient);
        candidates.insert(step);
        candidates.insert(saturating_mul(step, range(term.atom).size()));
      }
    };
    add(write_, write);
    add(read_, read);
    Cut cut;
    int64_t below = 1;
    for (int64_t at : candidates) {
      if (at <= below || at >= extent || at % below != 0 || extent % at != 0) continue;
      const int64_t size = at / below;
      const Expr low_write = write_.simple(mod(write, size));
      const Expr low_read = read_.simple(mod(read, size));
      const Expr high_write = write_.simple(floor_div(write, size));
      const Expr high_read = read_.simple(floor_div(read, size));
      if (!write_.good(low_write) || !read_.good(low_read)) continue;
      if (!write_.separable(high_write) || !read_.separable(high_read)) continue;
      cut.first.push_back(low_write);
      cut.second.push_back(low_read);
      write = high_write;
      read = high_read;
      below = at;
    }
    cut.first.push_back(write);
    cut.second.push_back(read);
    return cut;
  }

 private:
  const Regions& write_;
  const Regions& read_;
};

}  // namespace

std::pair<GridRegions, GridRegions> common_regions(const IndexingMap& write, const IndexingMap& read,
                                                   const std::vector<int64_t>& tensor) {
  const Regions writes(write);
  const Regions reads(read);
  const auto regions_of = [&](const Cut& cut) { return std::pair{writes.finish(cut.first), reads.finish(cut.second)}; };
  const auto exact = [](const auto& pair) { return pair.first.exact && pair.second.exact; };
  // The dimensions as they are.
  const Cut dimensions{writes.map().results, reads.map().results};
  const auto plain = regions_of(dimensions);
  const auto strides = indexing::row_major_strides(tensor);
  if (exact(plain) || plain.first.empty || plain.second.empty || !strides) return plain;
  // Dimensions cut into digits.
  const Cutter cutter(writes, reads);
  Cut finer;
  for (size_t d = 0; d < tensor.size(); ++d) {
    const Cut cut = cutter.run(dimensions.first[d], dimensions.second[d], tensor[d], {});
    finer.first.insert(finer.first.end(), cut.first.begin(), cut.first.end());
    finer.second.insert(finer.second.end(), cut.second.begin(), cut.second.end());
  }
  if (auto regions = regions_of(finer); exact(regions)) return regions;
  // The position of an element in row-major order cut into digits.
  const Expr written = writes.simple(indexing::linearize(dimensions.first, *strides));
  const Expr wanted = reads.simple(indexing::linearize(dimensions.second, *strides));
  const Cut flat = cutter.run(written, wanted, indexing::element_count(tensor).value_or(kGreatest), *strides);
  if (auto regions = regions_of(flat); exact(regions)) return regions;
  return plain;
}

}  // namespace strata
