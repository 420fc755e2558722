// Conversions to and from floats of 16 bits and fewer.
#include "emitters/math/scalar.h"
#include "emitters/math/strata_math.h"

/// What lies beyond the largest finite number; see FloatFormat in src/hlo/small_float.h.
enum Special { IEEE, NAN_ONLY, NEG_ZERO_NAN, NONE };

/// Defines the conversions of a format with a sign bit. Roundings: above the smallest normal number by adding half of
/// the last bit kept (and carrying into the exponent); below it by adding a number whose last bit is the format's.
#define ENCODE(suffix, real, word, mantissa, bias)                                                                  \
  static inline __attribute__((always_inline))                                                                      \
  uint32_t encode_##suffix(real x, int to_exponent, int to_mantissa, int to_bias, enum Special special) {           \
    const int width = sizeof(word) * 8;                                                                             \
    const word bits = bits_##suffix(x);                                                                             \
    const uint32_t to_sign = 1U << (to_exponent + to_mantissa);                                                     \
    const uint32_t sign = (bits >> (width - 1)) != 0 ? to_sign : 0;                                                 \
    const word size = bits & (~(word)0 >> 1);                                                                       \
    const word infinite = ~(word)0 >> 1 >> mantissa << mantissa;                                                    \
    const int shift = mantissa - to_mantissa;                                                                       \
    const word rounded = size + ((size >> shift) & 1) + (((word)1 << (shift - 1)) - 1);                             \
    const word normal = (rounded >> shift) - ((word)(bias - to_bias) << to_mantissa);                               \
    const real unit = power_of_two_##suffix(shift + 1 - to_bias);                                                   \
    const word subnormal = bits_##suffix(abs_##suffix(x) + unit) - bits_##suffix(unit);                             \
    const word code = size < (word)(bias + 1 - to_bias) << mantissa ? subnormal : normal;                           \
    const uint32_t largest = special == IEEE       ? to_sign - (1U << to_mantissa) - 1                              \
                             : special == NAN_ONLY ? to_sign - 2                                                    \
                                                   : to_sign - 1;                                                   \
    const uint32_t quiet = to_sign - (1U << to_mantissa) + (1U << (to_mantissa - 1));                               \
    const uint32_t nan = special == IEEE ? (sign | quiet) : special == NAN_ONLY ? (sign | (to_sign - 1)) : to_sign; \
    const uint32_t beyond = special == IEEE ? sign | (largest + 1) : special == NONE ? sign | largest : nan;        \
    if (size > infinite) return nan;                                                                                \
    if (code > largest) return beyond;                                                                              \
    return special == NEG_ZERO_NAN && code == 0 ? 0 : sign | (uint32_t)code;                                        \
  }
ENCODE(f32, float, uint32_t, 23, 127)
ENCODE(f64, double, uint64_t, 52, 1023)

static inline __attribute__((always_inline)) float decode(uint32_t code, int exponent, int mantissa, int bias,
                                                          enum Special special) {
  const uint32_t sign = 1U << (exponent + mantissa);
  const uint32_t size = code & (sign - 1);
  const uint32_t infinite = sign - (1U << mantissa);
  // Subnormal numbers of the format become those of f32, and the product normalises them.
  float value = of_bits_f32(size << (23 - mantissa)) * power_of_two_f32(127 - bias);
  if (special == IEEE && size >= infinite) value = size == infinite ? __builtin_inff() : __builtin_nanf("");
  if (special == NAN_ONLY && size == sign - 1) value = __builtin_nanf("");
  if (special == NEG_ZERO_NAN && code == sign) return __builtin_nanf("");
  return (code & sign) != 0 ? -value : value;
}

#define FORMAT(type, bits, exponent, mantissa, bias, special)      \
  bits STRATA_MATH_SYMBOL(strata_f32_to_##type)(float x) {         \
    return (bits)encode_f32(x, exponent, mantissa, bias, special); \
  }                                                                \
  bits STRATA_MATH_SYMBOL(strata_f64_to_##type)(double x) {        \
    return (bits)encode_f64(x, exponent, mantissa, bias, special); \
  }                                                                \
  float STRATA_MATH_SYMBOL(strata_##type##_to_f32)(bits code) {    \
    return decode(code, exponent, mantissa, bias, special);        \
  }
FORMAT(f4e2m1fn, uint8_t, 2, 1, 1, NONE)
FORMAT(f8e3m4, uint8_t, 3, 4, 3, IEEE)
FORMAT(f8e4m3, uint8_t, 4, 3, 7, IEEE)
FORMAT(f8e4m3fn, uint8_t, 4, 3, 7, NAN_ONLY)
FORMAT(f8e4m3b11fnuz, uint8_t, 4, 3, 11, NEG_ZERO_NAN)
FORMAT(f8e4m3fnuz, uint8_t, 4, 3, 8, NEG_ZERO_NAN)
FORMAT(f8e5m2, uint8_t, 5, 2, 15, IEEE)
FORMAT(f8e5m2fnuz, uint8_t, 5, 2, 16, NEG_ZERO_NAN)
FORMAT(f16, uint16_t, 5, 10, 15, IEEE)
FORMAT(bf16, uint16_t, 8, 7, 127, IEEE)

// A power of two without sign; halves are rounded up.
uint8_t STRATA_MATH_SYMBOL(strata_f32_to_f8e8m0fnu)(float x) {
  if (!(x > 0 && x < __builtin_inff())) return 0xff;
  if (x < 0x1p-126F) return x >= 0x1.8p-127F;
  return (uint8_t)((bits_f32(x) + 0x400000U) >> 23);
}
uint8_t STRATA_MATH_SYMBOL(strata_f64_to_f8e8m0fnu)(double x) {
  if (!(x > 0 && x < __builtin_inf())) return 0xff;
  const int code = (int)((bits_f64(x) + ((uint64_t)1 << 51)) >> 52) - 1023 + 127;
  return code < 0 ? 0 : code > 254 ? 0xff : (uint8_t)code;
}
float STRATA_MATH_SYMBOL(strata_f8e8m0fnu_to_f32)(uint8_t code) {
  if (code == 0) return 0x1p-127F;
  return code == 0xff ? __builtin_nanf("") : of_bits_f32((uint32_t)code << 23);
}
