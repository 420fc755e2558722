// What the tests of this folder share: errors in units in the last place, and arguments that are worth trying.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace strata::emitters {

/// |result - exact| in units of the last place that T has at `exact`, subnormal numbers included. Huge where one is NaN
/// and the other is not, or where zeros or infinities differ; infinity is taken for the number that follows the
/// largest.
template <class T>
double ulp_error(T result, long double exact) {
  constexpr double kWrong = 1e30;
  if (std::isnan(exact) || std::isnan(result)) return std::isnan(exact) && std::isnan(result) ? 0 : kWrong;
  if (exact == 0) return result == 0 && std::signbit(result) == std::signbit(exact) ? 0 : kWrong;
  if (std::isinf(exact)) return result == static_cast<T>(exact) ? 0 : kWrong;
  const auto rounded = static_cast<T>(exact);
  if (rounded == result) {
    if (result == 0 && std::signbit(result) != std::signbit(exact)) return kWrong;
    if (std::isinf(result)) return 0;
  }
  constexpr int kDigits = std::numeric_limits<T>::digits;
  const int exponent = std::max(std::ilogb(exact) + 1, std::numeric_limits<T>::min_exponent);
  const auto value = std::isinf(result) ? std::copysign(std::ldexp(1.0L, std::numeric_limits<T>::max_exponent), exact)
                                        : static_cast<long double>(result);
  if (std::isinf(result) && std::signbit(result) != std::signbit(exact)) return kWrong;
  return static_cast<double>(std::ldexp(std::fabs(value - exact), kDigits - exponent));
}

/// Zeros, infinities, NaN, subnormal numbers, powers of two, and what lies at thresholds, with its neighbours.
template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {0,
                           Limits::quiet_NaN(),
                           Limits::infinity(),
                           Limits::denorm_min(),
                           Limits::denorm_min() * 3,
                           Limits::min(),
                           Limits::max(),
                           Limits::max() / 2,
                           Limits::epsilon()};
  for (const double x : {0.25,
                         0.41421356237,
                         0.5,
                         0.6,
                         2.0 / 3,
                         0.70710678,
                         0.75,
                         1.0,
                         4.0 / 3,
                         1.41421356,
                         1.5,
                         2.0,
                         2.5,
                         3.0,
                         4.0,
                         6.0,
                         7.0,
                         10.0,
                         20.0,
                         40.0,
                         87.3,
                         88.72284,
                         88.8,
                         89.41599,
                         90.0,
                         103.2789,
                         103.9721,
                         104.0,
                         255.0,
                         708.3964,
                         709.7827,
                         709.8,
                         710.4758,
                         711.0,
                         744.4401,
                         745.1332,
                         746.0,
                         16384.0,
                         65504.0,
                         8388607.5,
                         4503599627370495.5,
                         1e10,
                         1e18,
                         1e30}) {
    T below = static_cast<T>(x);
    T above = below;
    values.push_back(below);
    for (int i = 0; i < 3; ++i) {
      values.push_back(below = std::nextafter(below, T{0}));
      values.push_back(above = std::nextafter(above, Limits::infinity()));
    }
  }
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  return values;
}

/// Random arguments, the same in every run: bits at random, exponents near 0, values near 1, within ±1000, near
/// multiples of pi/2.
template <class T>
class Arguments {
 public:
  T next() {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    const double unit = std::uniform_real_distribution<double>(-1, 1)(random_);
    switch (turn_++ % 8) {
      case 0:
        return std::bit_cast<T>(static_cast<Bits>(random_()));
      case 1:
        return static_cast<T>(1 + std::ldexp(unit, -static_cast<int>(random_() % 24)));
      case 2:
        return static_cast<T>(unit * 1000);
      case 3:
        return static_cast<T>(unit * 110);
      case 4:
        return static_cast<T>(static_cast<long double>(static_cast<int64_t>(random_() >> (1 + random_() % 63))) *
                              1.57079632679489661923132169163975144L);
      default:
        return static_cast<T>(std::ldexp(unit, 4 - static_cast<int>(random_() % 24)));
    }
  }

 private:
  std::mt19937_64 random_{20240229};
  uint64_t turn_ = 0;
};

/// The largest error that was seen, and where.
struct Worst {
  double error = 0;
  long double x = 0;
  long double y = 0;

  void see(double now, long double at_x, long double at_y = 0) {
    if (now > error) *this = {now, at_x, at_y};
  }
};

}  // namespace strata::emitters
