// Closed intervals of integers, and integer arithmetic that says when it does not fit.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace strata::indexing {

/// Least and greatest int64_t. As bounds of an interval they also stand for all that lies beyond.
inline constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kGreatest = std::numeric_limits<int64_t>::max();

/// The integers from `lo` to `hi`, both included; none if hi < lo.
struct Interval {
  int64_t lo = 0;
  int64_t hi = -1;

  bool empty() const { return hi < lo; }
  bool is_point() const { return lo == hi; }
  bool contains(int64_t x) const { return lo <= x && x <= hi; }
  /// Whether all of `other` lies in this one; true of an empty `other`.
  bool contains(const Interval& other) const { return other.empty() || (lo <= other.lo && other.hi <= hi); }
  /// How many integers; kGreatest if more than that.
  int64_t size() const;
  bool operator==(const Interval&) const = default;
};

/// All of int64_t.
inline constexpr Interval kEverything{kLeast, kGreatest};

Interval intersect(const Interval& a, const Interval& b);
/// [0, extent - 1], of the positions along a dimension.
Interval below(int64_t extent);
/// For each extent of a shape, the positions along it.
std::vector<Interval> positions(const std::vector<int64_t>& shape);
std::string to_string(const Interval& interval);

/// The exact result, or nothing where it is no int64_t.
std::optional<int64_t> checked_add(int64_t a, int64_t b);
std::optional<int64_t> checked_mul(int64_t a, int64_t b);
/// floor(a / b), and a - b * floor(a / b), which has the sign of b; nothing where b = 0 or it does not fit.
std::optional<int64_t> checked_floor_div(int64_t a, int64_t b);
std::optional<int64_t> checked_mod(int64_t a, int64_t b);
/// The same for b > 0, where nothing can go wrong.
int64_t floor_div(int64_t a, int64_t b);
int64_t floor_mod(int64_t a, int64_t b);
/// ceil(a / b) for b > 0.
int64_t ceil_div(int64_t a, int64_t b);
/// The greatest common divisor, positive, or 0 of zeros; half of it where that is 2⁶³, which is no int64_t.
int64_t common_divisor(int64_t a, int64_t b);
/// The nearest int64_t to the sum and to the product.
int64_t saturating_add(int64_t a, int64_t b);
int64_t saturating_mul(int64_t a, int64_t b);
/// The product of extents; nothing where it is no int64_t. A zero makes it zero, whatever the others are.
std::optional<int64_t> element_count(const std::vector<int64_t>& shape);

/// Intervals that contain every result with one operand of each; an empty operand gives an empty result.
Interval operator+(const Interval& a, const Interval& b);
Interval operator*(const Interval& a, int64_t factor);
Interval operator*(const Interval& a, const Interval& b);
/// Division by what may be zero leaves out the zero.
Interval floor_div(const Interval& a, const Interval& b);
Interval mod(const Interval& a, const Interval& b);

}  // namespace strata::indexing
