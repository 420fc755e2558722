#include "emitters/math/polynomials.h"
#include "emitters/math/strata_math.h"

#define REAL double
#define BITS uint64_t
#define SIGNED int64_t
#define N(name) name##_f64
#define PUBLIC(name) STRATA_MATH_SYMBOL(strata_##name##_f64)

#define MANTISSA_BITS 52
#define MANTISSA_MASK 0xfffffffffffffU
#define EXPONENT_BIAS 1023
#define INFINITE __builtin_inf()
#define NOT_A_NUMBER __builtin_nan("")
#define SMALLEST_NORMAL 0x1p-1022
#define INVERSE_SMALLEST_NORMAL 0x1p1022
#define SUBNORMAL_SCALE 0x1p53
#define TINY 0x1p-55
#define LARGE 0x1p500
#define EVEN_FROM 0x1p53
#define COUNTED 0x1p51
#define ROUNDER 0x1.8p52
#define LOG2_E 0x1.71547652b82fep+0
#define LN2 0x1.62e42fefa39efp-1
#define LN2_HIGH 0x1.62e42fefa39efp-1
#define LN2_LOW 0x1.abc9e3b39803fp-56
#define LN2_HIGH_OF_EXPONENT LN2_HIGH
#define LN2_LOW_OF_EXPONENT LN2_LOW
#define TWO_THIRDS 0x1.5555555555555p-1
#define HALF_PI_HIGH 0x1.921fb54442d18p+0
#define HALF_PI_LOW 0x1.1a62633145c07p-54
#define HALF_PI_LOWEST (-0x1.f1976b7ed8fbcp-110)
#define QUARTER_PI_HIGH 0x1.921fb54442d18p-1
#define QUARTER_PI_LOW 0x1.1a62633145c07p-55
#define TWO_OVER_PI 0x1.45f306dc9c883p-1
#define SHORT_ANGLE 0x1p30
#define EXP_LOWEST (-746.0)
#define EXP_HIGHEST 711.0
#define EXPM1_LOWEST (-40.0)
#define EXPM1_HIGHEST 709.8
#define ERF_IS_ONE 6.0
#define CBRT_STEPS 2
#define REMAINDER_STEP 11

static inline double pow_of_positive_f64(double x, double y);

/// Of 32 bits: integers of 64 are several instructions on a GPU.
static inline double number_of_exponent_f64(int64_t exponent) { return (double)(int)(exponent >> MANTISSA_BITS); }

#include "emitters/math/exp_log.inc"
#include "emitters/math/real_functions.inc"
#include "emitters/math/trigonometric.inc"

/// As that of f32.
double PUBLIC(erfc)(double x) {
  const double a = at_most_f64(abs_f64(x), 27.4);
  const double factor = erfc_factor_f64((a - 4) / (a + 4)) / (a + 4);
  const double square = a * a;
  const double lost = fma_f64(a, a, -square);
  // Scaled until the end, so that what is subnormal is rounded once.
  const double scaled = exp_times_f64(-square, 100) * fma_f64(factor, -lost, factor);
  const double result = scaled * 0x1p-100;
  return x < 0 ? 2 - result : result;
}

/// log(x) = *high + *low to about 2^-64, for a positive x.
static inline void log_f64(double x, double* high, double* low) {
  const int small = x < SMALLEST_NORMAL;
  const uint64_t bits = bits_f64(small ? x * SUBNORMAL_SCALE : x);
  const int k = (int)((int64_t)(bits - bits_f64(0x1.6a09e667f3bcdp-1)) >> MANTISSA_BITS);
  const double f = of_bits_f64(bits - ((uint64_t)(int64_t)k << MANTISSA_BITS)) - 1;
  const double n = (double)(small ? k - MANTISSA_BITS - 1 : k);

  // s = f / (2 + f), and log(1 + f) = 2 · (s + s^3/3 + s^5/5 + ...), the first two terms in pairs of doubles.
  const double divisor = 2 + f;
  const double divisor_low = f - (divisor - 2);
  const double s = f / divisor;
  const double s_low = (fma_f64(-s, divisor, f) - s * divisor_low) / divisor;
  const double z = s * s;
  const double z_low = fma_f64(s, s, -z) + 2 * s * s_low;
  const double third = z * 0x1.5555555555555p-2;
  const double third_low =
      fma_f64(z, 0x1.5555555555555p-2, -third) + fma_f64(z, 0x1.5555555555555p-56, z_low * 0x1.5555555555555p-2);
  const double cube = s * third;
  const double cube_low = fma_f64(s, third, -cube) + fma_f64(s, third_low, s_low * third);
  const double rest = s * (z * z) * atanh_tail_f64(z);
  const double sum = s + cube;
  const double sum_low = (cube - (sum - s)) + (rest + (cube_low + s_low));

  // The product with the short part of log(2) is exact.
  const double whole = n * 0x1.62e42fefa4p-1;
  const double total = whole + 2 * sum;
  const double share = total - whole;
  const double lost = (whole - (total - share)) + (2 * sum - share);
  const double total_low = lost + fma_f64(n, -0x1.8432a1b0e2634p-43, 2 * sum_low);
  *high = total + total_low;
  *low = total_low - (*high - total);
}

static inline double pow_of_positive_f64(double x, double y) {
  double log_high;
  double log_low;
  log_f64(x, &log_high, &log_low);
  const double product = y * log_high;
  if (!(product < 800 && product > -800)) return product > 0 ? INFINITE : 0;
  const double product_low = fma_f64(y, log_low, fma_f64(y, log_high, -product));
  double rest;
  const int n = exp_reduce_f64(product, 1, &rest);
  return scale_f64(1 + fma_f64(product_low, rest, rest + product_low), n);
}

double PUBLIC(tanh)(double x) {
  const double size = abs_f64(x);
  if (size > 20) return copysign_f64(1, x);
  const double e = PUBLIC(expm1)(2 * size);
  return copysign_f64(size > 0.6 ? 1 - 2 / (e + 2) : e / (e + 2), x);
}

double PUBLIC(rsqrt)(double x) { return 1 / sqrt_f64(x); }

// Payne and Hanek's reduction.

/// 64 zeros, then the bits of 2/pi after its point.
static const uint64_t two_over_pi[21] = {
    0x0000000000000000U, 0xa2f9836e4e441529U, 0xfc2757d1f534ddc0U, 0xdb6295993c439041U, 0xfe5163abdebbc561U,
    0xb7246e3a424dd2e0U, 0x06492eea09d1921cU, 0xfe1deb1cb129a73eU, 0xe88235f52ebb4484U, 0xe99c7026b45f7e41U,
    0x3991d639835339f4U, 0x9c845f8bbdf9283bU, 0x1ff897ffde05980fU, 0xef2f118b5a0a6d1fU, 0x6d367ecf27cb09b7U,
    0x4f463f669e5fea2dU, 0x7527bac7ebe5f17bU, 0x3d0739f78a5292eaU, 0x6bfb5fb11f8d5d08U, 0x56033046fc7b6babU,
    0xf0cfbc209af4361dU};

/// x · 2/pi = (the result, modulo 4) + *rest · 2/pi, for a finite x of at least 2^30. The bits of 2/pi above a window
/// of 192 give multiples of 4, and those below less than any remainder's last bit.
static __attribute__((noinline)) int long_quarter_turns_f64(double x, double* rest) {
  const uint64_t bits = bits_f64(x);
  const uint64_t mantissa = (bits & MANTISSA_MASK) | (uint64_t)1 << MANTISSA_BITS;
  const int start = (int)(bits >> MANTISSA_BITS & 0x7ff) - EXPONENT_BIAS - MANTISSA_BITS - 2 + 64;
  const int word = start >> 6;
  const int shift = start & 63;
  // Two shifts, because one by 64 is not defined.
  const uint64_t high = two_over_pi[word] << shift | two_over_pi[word + 1] >> 1 >> (63 - shift);
  const uint64_t middle = two_over_pi[word + 1] << shift | two_over_pi[word + 2] >> 1 >> (63 - shift);
  const uint64_t low = two_over_pi[word + 2] << shift | two_over_pi[word + 3] >> 1 >> (63 - shift);
  __extension__ typedef unsigned __int128 Wide;
  const Wide middle_product = (Wide)mantissa * middle + (uint64_t)((Wide)mantissa * low >> 64);
  const uint64_t top = mantissa * high + (uint64_t)(middle_product >> 64);

  // Two bits of quarters, then the fraction, from which the nearest quarter is taken: it becomes a signed one.
  int quarters = (int)(top >> 62);
  uint64_t fraction = top << 2 | (uint64_t)middle_product >> 62;
  uint64_t below = (uint64_t)middle_product << 2;
  const int up = (int)(fraction >> 63);
  quarters += up;
  if (up) {
    fraction = ~fraction + (below == 0);
    below = 0 - below;
  }
  const int zeros = fraction != 0 ? __builtin_clzll(fraction) : 64;
  const uint64_t leading = fraction == 0 ? below : fraction << zeros | below >> 1 >> (63 - zeros);
  const double high_part = (double)(leading >> 11 << 11);
  const double low_part = (double)(leading & 0x7ff);
  const double product = high_part * HALF_PI_HIGH;
  const double product_low =
      fma_f64(high_part, HALF_PI_LOW, fma_f64(low_part, HALF_PI_HIGH, fma_f64(high_part, HALF_PI_HIGH, -product)));
  const double size = (product + product_low) * power_of_two_f64(-64 - zeros);
  const int negative = (int)(bits >> 63);
  *rest = up != negative ? -size : size;
  return negative ? -quarters : quarters;
}

int STRATA_MATH_SYMBOL(strata_quarter_turns_f64)(double x, double* rest) { return quarter_turns_f64(x, rest); }
