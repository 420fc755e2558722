// What the complex functions share: pairs of doubles, and operations on them. They are written for c128; complex64.c
// computes c64 with them.
#pragma once

#include "emitters/math/scalar.h"
#include "emitters/math/strata_math.h"

#define REAL_FUNCTION(name) STRATA_MATH_SYMBOL(strata_##name##_f64)
#define COMPLEX_FUNCTION(name) STRATA_MATH_SYMBOL(strata_##name##_c128)

#define INFINITE __builtin_inf()
#define NOT_A_NUMBER __builtin_nan("")
#define HALF_PI 0x1.921fb54442d18p+0
#define LN2 0x1.62e42fefa39efp-1

typedef struct {
  double re;
  double im;
} Complex;

typedef struct {
  double high;
  double low;
} Sum;

static inline Complex complex_of(double re, double im) { return (Complex){re, im}; }
static inline int is_nan(double x) { return x != x; }
static inline int is_infinite(double x) { return abs_f64(x) == INFINITE; }
static inline int is_finite(double x) { return abs_f64(x) < INFINITE; }
static inline double larger(double a, double b) { return a > b ? a : b; }

/// The exponent of a finite x, but within what power_of_two_f64 can invert.
static inline int exponent_of(double x) {
  const int exponent = (int)(bits_f64(x) >> 52 & 0x7ff) - 1023;
  return exponent < -1022 ? -1022 : exponent > 1022 ? 1022 : exponent;
}

/// a + b without error.
static inline Sum exact_sum(double a, double b) {
  const double sum = a + b;
  const double share = sum - a;
  return (Sum){sum, (a - (sum - share)) + (b - share)};
}

#define AS_FUNCTION(name)                                       \
  static inline Complex complex_##name(Complex z) {             \
    Complex result;                                             \
    COMPLEX_FUNCTION(name)(z.re, z.im, &result.re, &result.im); \
    return result;                                              \
  }
#define RETURN(re_value, im_value) \
  do {                             \
    const double re_ = (re_value); \
    const double im_ = (im_value); \
    *result_re = re_;              \
    *result_im = im_;              \
    return;                        \
  } while (0)
