// IEEE half precision as bits, for files and for programs that run on the host.
#pragma once

#include <cmath>
#include <cstdint>

namespace strata {

inline double half_to_double(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double magnitude = exponent == 0    ? std::ldexp(mantissa, -24)
                           : exponent == 31 ? (mantissa == 0 ? HUGE_VAL : std::nan(""))
                                            : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits >> 15) != 0 ? -magnitude : magnitude;
}

/// `value` is exact in half precision (ops/arithmetic.h rounds), infinite or NaN.
inline uint16_t double_to_half(double value) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (std::isinf(value)) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x1p-14) return static_cast<uint16_t>(sign | static_cast<int>(std::ldexp(magnitude, 24)));
  const int exponent = std::ilogb(magnitude);
  return static_cast<uint16_t>(sign |
                               (((exponent + 14) << 10) + static_cast<int>(std::ldexp(magnitude, 10 - exponent))));
}

}  // namespace strata
