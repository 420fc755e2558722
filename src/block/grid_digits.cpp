#include "block/grid_digits.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>

#include "indexing/expr_range.h"

namespace strata {

using indexing::checked_mul;
using indexing::Expr;
using indexing::ExprKind;
using indexing::Interval;
using indexing::kGreatest;
using indexing::kLeast;
using indexing::saturating_add;
using indexing::saturating_mul;
using indexing::Term;

namespace {

/// Of expressions whose digits are no digits of each other: then a box around the blocks is given instead.
constexpr size_t kMostBoxes = 32;

/// A quotient by a constant of a sum, by itself: what the sum must be is an interval too.
const Expr* lone_quotient(const Expr& expr) {
  const bool quotient = expr.kind() == ExprKind::FloorDiv && expr.rhs().is_constant() && expr.rhs().value() > 0;
  return quotient && !digit_of(expr) ? &expr : nullptr;
}

int64_t moved(int64_t bound, int64_t by) {
  return bound == kLeast || bound == kGreatest ? bound : saturating_add(bound, by);
}

}  // namespace

std::optional<AtomDigit> digit_of(const Expr& atom) {
  AtomDigit digit{atom, 1, kGreatest};
  if (digit.variable.kind() == ExprKind::Mod && digit.variable.rhs().is_constant()) {
    digit.extent = digit.variable.rhs().value();
    digit.variable = Expr(digit.variable.lhs());
  }
  if (digit.variable.kind() == ExprKind::FloorDiv && digit.variable.rhs().is_constant()) {
    digit.divisor = digit.variable.rhs().value();
    digit.variable = Expr(digit.variable.lhs());
  }
  const ExprKind kind = digit.variable.kind();
  if ((kind != ExprKind::Dimension && kind != ExprKind::Range) || digit.divisor < 1 || digit.extent < 1)
    return std::nullopt;
  return digit;
}

GridDigits::GridDigits(const std::vector<int64_t>& grid, const std::vector<Expr>& exprs) : grid_(grid) {
  std::vector<std::set<int64_t>> cuts(grid.size());
  for (const Expr& expr : exprs) {
    const Expr* quotient = lone_quotient(expr);
    for (const Term& term : (quotient ? quotient->lhs() : expr).terms()) {
      const auto digit = digit_of(term.atom);
      if (!digit) continue;
      auto& of = cuts[static_cast<size_t>(digit->variable.number())];
      of.insert(digit->divisor);
      if (const auto end = checked_mul(digit->divisor, digit->extent)) of.insert(*end);
    }
  }
  for (size_t g = 0; g < grid.size(); ++g) {
    int64_t low = 1;
    const auto add = [&](int64_t high) {
      if (high > low) digits_.push_back({g, low, high / low});
      low = high;
    };
    for (int64_t cut : cuts[g]) {
      if (cut < grid[g] && cut % low == 0 && grid[g] % cut == 0) add(cut);
    }
    add(grid[g]);
  }
  for (const Expr& expr : exprs) forms_.push_back(form_of(expr));
}

DigitForm GridDigits::form_of(const Expr& whole) const {
  DigitForm form;
  form.coefficients.assign(digits_.size(), 0);
  Expr expr = whole;
  if (const Expr* quotient = lone_quotient(whole)) {
    form.divisor = quotient->rhs().value();
    expr = Expr(quotient->lhs());
  }
  indexing::IndexingMap map;
  map.dims = indexing::positions(grid_);
  indexing::ExprRange range(map);
  form.offset = expr.offset();
  for (const Term& term : expr.terms()) {
    // The digits of the coordinate that lie in [divisor, divisor · extent) are the atom's.
    const auto atom = digit_of(term.atom);
    std::vector<size_t> within;
    int64_t reached = atom ? atom->divisor : 0;
    const int64_t size = atom ? grid_[static_cast<size_t>(atom->variable.number())] : 0;
    const int64_t end = atom ? std::min(saturating_mul(atom->divisor, atom->extent), size) : 0;
    for (size_t i = 0; atom && i < digits_.size(); ++i) {
      const GridDigit& digit = digits_[i];
      if (digit.coordinate != static_cast<size_t>(atom->variable.number()) || digit.divisor != reached) continue;
      if (reached >= end) break;
      within.push_back(i);
      reached *= digit.extent;
    }
    if (atom && (reached == end || atom->divisor >= size)) {
      for (size_t i : within) form.coefficients[i] += term.coefficient * (digits_[i].divisor / atom->divisor);
      continue;
    }
    const Interval values = range(term.atom) * term.coefficient;
    form.slack = {saturating_add(form.slack.lo, values.lo), saturating_add(form.slack.hi, values.hi)};
  }
  return form;
}

namespace {

/// What is left of a form: terms from the largest coefficient to the smallest, all of them positive.
struct Terms {
  struct Part {
    size_t digit;
    int64_t coefficient;
    bool flipped;  ///< the digit counts downwards
  };
  std::vector<Part> parts;
  std::vector<int64_t> reach;  ///< the largest value of parts[k], parts[k + 1], …
  int64_t least = 0;
};

Terms terms_of(const DigitForm& form, const std::vector<GridDigit>& digits) {
  Terms terms;
  terms.least = form.offset;
  for (size_t i = 0; i < digits.size(); ++i) {
    const int64_t a = form.coefficients[i];
    if (a == 0) continue;
    if (a < 0) terms.least += a * (digits[i].extent - 1);
    terms.parts.push_back({i, std::abs(a), a < 0});
  }
  std::stable_sort(terms.parts.begin(), terms.parts.end(),
                   [](const auto& a, const auto& b) { return a.coefficient > b.coefficient; });
  terms.reach.assign(terms.parts.size() + 1, 0);
  for (size_t k = terms.parts.size(); k-- > 0;) {
    terms.reach[k] = terms.reach[k + 1] + terms.parts[k].coefficient * (digits[terms.parts[k].digit].extent - 1);
  }
  return terms;
}

}  // namespace

bool GridDigits::exact(size_t expr) const {
  if (!forms_[expr].exact()) return false;
  const Terms terms = terms_of(forms_[expr], digits_);
  for (size_t k = 0; k < terms.parts.size(); ++k) {
    if (terms.reach[k + 1] > terms.parts[k].coefficient) return false;
  }
  return true;
}

Interval GridDigits::range(size_t expr) const {
  const DigitForm& form = forms_[expr];
  const Terms terms = terms_of(form, digits_);
  const int64_t least = saturating_add(terms.least, form.slack.lo);
  const int64_t most = saturating_add(saturating_add(terms.least, terms.reach[0]), form.slack.hi);
  return {indexing::floor_div(least, form.divisor), indexing::floor_div(most, form.divisor)};
}

std::optional<FlatForm> GridDigits::flat(size_t expr) const {
  const DigitForm& form = forms_[expr];
  if (!form.exact() || form.divisor != 1) return std::nullopt;
  const Terms terms = terms_of(form, digits_);
  FlatForm flat{terms.least + form.slack.lo, 1, 1};
  if (!terms.parts.empty()) flat.step = terms.parts.back().coefficient;
  for (size_t k = terms.parts.size(); k-- > 0;) {
    if (terms.parts[k].coefficient != saturating_mul(flat.step, flat.count)) return std::nullopt;
    flat.count = saturating_mul(flat.count, digits_[terms.parts[k].digit].extent);
  }
  return flat;
}

std::vector<size_t> GridDigits::unused() const {
  std::vector<size_t> found;
  for (size_t i = 0; i < digits_.size(); ++i) {
    if (std::none_of(forms_.begin(), forms_.end(), [&](const auto& form) { return form.coefficients[i] != 0; })) {
      found.push_back(i);
    }
  }
  return found;
}

bool GridDigits::shares_digits() const {
  for (size_t i = 0; i < digits_.size(); ++i) {
    if (std::count_if(forms_.begin(), forms_.end(), [&](const auto& form) { return form.coefficients[i] != 0; }) > 1) {
      return true;
    }
  }
  return false;
}

GridDigits::DigitBox GridDigits::everything() const {
  DigitBox box;
  for (const GridDigit& digit : digits_) box.push_back(indexing::below(digit.extent));
  return box;
}

std::vector<GridDigits::DigitBox> GridDigits::solutions(size_t expr, const Interval& values, int64_t& steps) const {
  return solve(forms_[expr], values, steps);
}

std::vector<GridDigits::DigitBox> GridDigits::coordinate_within(size_t coordinate, const Interval& values,
                                                                int64_t& steps) const {
  DigitForm form;
  for (const GridDigit& digit : digits_) {
    form.coefficients.push_back(digit.coordinate == coordinate ? digit.divisor : 0);
  }
  return solve(form, values, steps);
}

std::optional<PartForm> GridDigits::parts(size_t expr, size_t coordinate, int64_t part) const {
  const DigitForm& form = forms_[expr];
  if (form.divisor != 1) return std::nullopt;
  PartForm parts{0, {saturating_add(form.offset, form.slack.lo), saturating_add(form.offset, form.slack.hi)}};
  const auto leave = [&](int64_t coefficient, int64_t extent) {
    parts.rest = parts.rest + indexing::below(extent) * coefficient;
  };
  for (size_t i = 0; i < digits_.size(); ++i) {
    const GridDigit& digit = digits_[i];
    if (digit.coordinate != coordinate) continue;
    if (digit.divisor * digit.extent <= part) {
      leave(form.coefficients[i], digit.extent);
      continue;
    }
    // What the digit, or its higher part, adds for each part.
    const int64_t low = std::max<int64_t>(part / digit.divisor, 1);
    const int64_t high = std::max<int64_t>(digit.divisor / part, 1);
    if (digit.divisor < part && (part % digit.divisor != 0 || digit.extent % low != 0)) return std::nullopt;
    if (digit.divisor > part && digit.divisor % part != 0) return std::nullopt;
    const int64_t step = form.coefficients[i] * low / high;
    if (step < 1 || form.coefficients[i] * low % high != 0 || (parts.step != 0 && step != parts.step))
      return std::nullopt;
    parts.step = step;
    if (low > 1) leave(form.coefficients[i], low);
  }
  if (parts.step == 0) return std::nullopt;
  const int64_t around = saturating_mul(parts.step, grid_[coordinate] / part);
  for (size_t i = 0; i < digits_.size(); ++i) {
    if (digits_[i].coordinate == coordinate || form.coefficients[i] % around == 0) continue;
    leave(form.coefficients[i], digits_[i].extent);
  }
  return parts;
}

std::vector<GridDigits::DigitBox> GridDigits::solve(const DigitForm& form, const Interval& values,
                                                    int64_t& steps) const {
  if (values.empty()) return {};
  Interval wanted = values;
  if (form.divisor != 1) {
    wanted.lo = wanted.lo == kLeast ? kLeast : saturating_mul(wanted.lo, form.divisor);
    wanted.hi =
        wanted.hi == kGreatest ? kGreatest : saturating_add(saturating_mul(wanted.hi, form.divisor), form.divisor - 1);
  }
  const Terms terms = terms_of(form, digits_);
  wanted.lo = moved(moved(wanted.lo, -terms.least), -form.slack.hi);
  wanted.hi = moved(moved(wanted.hi, -terms.least), -form.slack.lo);

  std::vector<DigitBox> found;
  DigitBox box = everything();
  const auto put = [&](size_t k, const Interval& x) {
    const auto& part = terms.parts[k];
    const int64_t last = digits_[part.digit].extent - 1;
    box[part.digit] = part.flipped ? Interval{last - x.hi, last - x.lo} : x;
  };
  // Values of digit k for which all, or some, of what the smaller digits add lies within [lo, hi].
  const std::function<void(size_t, int64_t, int64_t)> search = [&](size_t k, int64_t lo, int64_t hi) {
    ++steps;
    if (hi < 0 || lo > terms.reach[k]) return;
    if (lo <= 0 && hi >= terms.reach[k]) {
      found.push_back(box);
      return;
    }
    const int64_t a = terms.parts[k].coefficient;
    const int64_t rest = terms.reach[k + 1];
    const Interval all = indexing::below(digits_[terms.parts[k].digit].extent);
    lo = std::max<int64_t>(lo, 0);
    hi = std::min(hi, terms.reach[k]);
    const Interval some = indexing::intersect(all, {indexing::ceil_div(lo - rest, a), indexing::floor_div(hi, a)});
    const Interval inside = indexing::intersect(all, {indexing::ceil_div(lo, a), indexing::floor_div(hi - rest, a)});
    if (some.empty()) return;
    const int64_t partial = some.size() - (inside.empty() ? 0 : inside.size());
    if (partial + static_cast<int64_t>(found.size()) > static_cast<int64_t>(kMostBoxes)) {
      put(k, some);
      found.push_back(box);
    } else {
      for (int64_t x = some.lo; x <= some.hi; ++x) {
        if (!inside.empty() && x == inside.lo) {
          put(k, inside);
          found.push_back(box);
          x = inside.hi;
          continue;
        }
        put(k, {x, x});
        search(k + 1, lo - a * x, hi - a * x);
      }
    }
    put(k, all);
  };
  search(0, wanted.lo, wanted.hi);
  return found;
}

BlockBox GridDigits::blocks(const DigitBox& box) const {
  BlockBox blocks(grid_.size());
  for (size_t i = 0; i < digits_.size(); ++i) {  // from the lowest digit of a coordinate to its highest
    StridedRange& range = blocks[digits_[i].coordinate];
    range.first += digits_[i].divisor * box[i].lo;
    if (box[i].is_point()) continue;
    StridedRange::Level level{digits_[i].divisor, box[i].size()};
    if (!range.levels.empty() && range.levels.back().step * range.levels.back().count == level.step) {
      range.levels.back().count *= level.count;
    } else {
      range.levels.push_back(level);
    }
  }
  return blocks;
}

}  // namespace strata
