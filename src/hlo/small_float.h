// Floating-point formats of 16 bits and fewer, and rounding to them.
#pragma once

#include <cstdint>
#include <span>

#include "hlo/element_type.h"

namespace strata::hlo {

/// A format with a sign bit above exponent bits above mantissa bits. f8e8m0fnu has neither sign nor mantissa.
struct FloatFormat {
  /// What lies beyond the largest finite number.
  enum class Special : uint8_t {
    Ieee,        ///< infinities and NaNs, as IEEE 754 has them
    NanOnly,     ///< all ones is NaN, no infinity (suffix fn)
    NegZeroNan,  ///< the bits of -0 are the only NaN, no infinity (suffix fnuz)
    None,        ///< neither; larger numbers become the largest
  };
  int exponent_bits = 8;
  int mantissa_bits = 23;
  int bias = 127;
  Special special = Special::Ieee;

  int width() const { return 1 + exponent_bits + mantissa_bits; }
};

/// Of a float type, f32 and f64 included; not of f8e8m0fnu.
FloatFormat format_of(ElementType type);

/// The bits of `value` rounded to nearest, ties to even. Where a format has no infinity, what is too large becomes NaN.
uint16_t encode(const FloatFormat& format, double value);
/// The same for a type of at most 16 bits, f8e8m0fnu too (where what is not positive has no bits and becomes NaN).
uint16_t encode(ElementType type, double value);
/// The values of all bit patterns of a type of at most 16 bits.
std::span<const float> decode_table(ElementType type);

}  // namespace strata::hlo
