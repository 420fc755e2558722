#include "ops/arithmetic.h"

#include <bit>

namespace strata {
namespace {

/// Rounds to `mantissa` explicit bits with the given smallest normal exponent and largest finite value.
double round_mantissa(double value, int mantissa, int smallest_exponent, double largest) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), smallest_exponent);
  const double unit = std::ldexp(1.0, exponent - mantissa);
  const double rounded = std::nearbyint(value / unit) * unit;
  return std::fabs(rounded) > largest ? std::copysign(HUGE_VAL, value) : rounded;
}

}  // namespace

PowerTable::PowerTable(const PrimeField& field, uint64_t base) : digits_(8 * 256) {
  for (size_t digit = 0; digit < 8; ++digit) {
    uint64_t power = field.one();
    for (size_t i = 0; i < 256; ++i) {
      digits_[digit * 256 + i] = power;
      power = field.mul(power, base);
    }
    base = power;
  }
}

double round_to(double value, DType type) {
  switch (type) {
    case DType::F16:
      return round_mantissa(value, 10, -14, 65504.0);
    case DType::BF16:
      return round_mantissa(value, 7, -126, 0x1.FEp127);
    case DType::F32:
      return static_cast<double>(static_cast<float>(value));
    case DType::F64:
      return value;
  }
  return value;
}

}  // namespace strata
