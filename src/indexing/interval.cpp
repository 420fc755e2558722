#include "indexing/interval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <numeric>

namespace strata::indexing {
namespace {

using Wide = __int128;

int64_t saturated(Wide x) { return static_cast<int64_t>(std::clamp<Wide>(x, kLeast, kGreatest)); }

std::optional<int64_t> fitting(Wide x) {
  if (x < kLeast || x > kGreatest) return std::nullopt;
  return static_cast<int64_t>(x);
}

Wide wide_floor_div(Wide a, Wide b) {
  const Wide q = a / b;
  return q * b != a && ((a < 0) != (b < 0)) ? q - 1 : q;
}

bool unbounded(int64_t bound) { return bound == kLeast || bound == kGreatest; }

/// floor(a / b) of the bounds of intervals, where a bound at the end of int64_t stands for all beyond it.
int64_t div_bound(int64_t a, int64_t b) {
  if (unbounded(a)) return (a < 0) == (b < 0) ? kGreatest : kLeast;
  return saturated(wide_floor_div(a, b));
}

int64_t mul_bound(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (unbounded(a) || unbounded(b)) return (a < 0) == (b < 0) ? kGreatest : kLeast;
  return saturating_mul(a, b);
}

Interval hull(std::initializer_list<int64_t> values) { return {std::min(values), std::max(values)}; }

Interval unite(const Interval& a, const Interval& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
}

}  // namespace

int64_t Interval::size() const { return empty() ? 0 : saturated(Wide{hi} - lo + 1); }

Interval intersect(const Interval& a, const Interval& b) { return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)}; }

Interval below(int64_t extent) { return {0, extent - 1}; }

std::vector<Interval> positions(const std::vector<int64_t>& shape) {
  std::vector<Interval> result;
  for (const int64_t extent : shape) result.push_back(below(extent));
  return result;
}

std::string to_string(const Interval& interval) { return fmt::format("[{}, {}]", interval.lo, interval.hi); }

std::optional<int64_t> checked_add(int64_t a, int64_t b) { return fitting(Wide{a} + b); }
std::optional<int64_t> checked_mul(int64_t a, int64_t b) { return fitting(Wide{a} * b); }

std::optional<int64_t> checked_floor_div(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  return fitting(wide_floor_div(a, b));
}

std::optional<int64_t> checked_mod(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  return fitting(Wide{a} - wide_floor_div(a, b) * b);
}

int64_t floor_div(int64_t a, int64_t b) {
  assert(b > 0);
  return a / b - (a % b < 0 ? 1 : 0);
}

int64_t floor_mod(int64_t a, int64_t b) {
  assert(b > 0);
  const int64_t r = a % b;
  return r < 0 ? r + b : r;
}

int64_t ceil_div(int64_t a, int64_t b) {
  assert(b > 0);
  return a / b + (a % b > 0 ? 1 : 0);
}

int64_t saturating_add(int64_t a, int64_t b) { return saturated(Wide{a} + b); }
int64_t saturating_mul(int64_t a, int64_t b) { return saturated(Wide{a} * b); }

int64_t common_divisor(int64_t a, int64_t b) {
  const auto magnitude = [](int64_t x) { return x < 0 ? -static_cast<uint64_t>(x) : static_cast<uint64_t>(x); };
  const uint64_t divisor = std::gcd(magnitude(a), magnitude(b));
  return static_cast<int64_t>(divisor > static_cast<uint64_t>(kGreatest) ? divisor / 2 : divisor);
}

std::optional<int64_t> element_count(const std::vector<int64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::optional<int64_t> count = 1;
  for (const int64_t extent : shape) {
    count = checked_mul(*count, extent);
    if (!count) return count;
  }
  return count;
}

Interval operator+(const Interval& a, const Interval& b) {
  if (a.empty() || b.empty()) return {};
  // An unbounded end stays so, whatever is added to it.
  const int64_t lo = a.lo == kLeast || b.lo == kLeast ? kLeast : saturating_add(a.lo, b.lo);
  const int64_t hi = a.hi == kGreatest || b.hi == kGreatest ? kGreatest : saturating_add(a.hi, b.hi);
  return {lo, hi};
}

Interval operator*(const Interval& a, int64_t factor) { return a * Interval{factor, factor}; }

Interval operator*(const Interval& a, const Interval& b) {
  if (a.empty() || b.empty()) return {};
  return hull({mul_bound(a.lo, b.lo), mul_bound(a.lo, b.hi), mul_bound(a.hi, b.lo), mul_bound(a.hi, b.hi)});
}

Interval floor_div(const Interval& a, const Interval& b) {
  if (a.empty()) return {};
  Interval result;
  for (const Interval& part : {intersect(b, {1, kGreatest}), intersect(b, {kLeast, -1})}) {
    if (part.empty()) continue;
    result = unite(result, hull({div_bound(a.lo, part.lo), div_bound(a.lo, part.hi), div_bound(a.hi, part.lo),
                                 div_bound(a.hi, part.hi)}));
  }
  return result;
}

Interval mod(const Interval& a, const Interval& b) {
  if (a.empty()) return {};
  Interval result;
  if (const Interval part = intersect(b, {1, kGreatest}); !part.empty()) {
    const bool bounded = !unbounded(a.lo) && !unbounded(a.hi) && !unbounded(part.hi);
    const bool one_block = bounded && part.is_point() && floor_div(a.lo, part.lo) == floor_div(a.hi, part.lo);
    if (one_block) {
      result = {floor_mod(a.lo, part.lo), floor_mod(a.hi, part.lo)};
    } else {
      // What is not negative grows by no remainder.
      result = {0, a.lo >= 0 ? std::min(a.hi, part.hi - 1) : part.hi - 1};
    }
  }
  if (const Interval part = intersect(b, {kLeast, -1}); !part.empty()) {
    result = unite(result, {a.hi <= 0 ? std::max(a.lo, saturating_add(part.lo, 1)) : saturating_add(part.lo, 1), 0});
  }
  return result;
}

}  // namespace strata::indexing
