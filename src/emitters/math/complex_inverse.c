// Roots, logarithms and inverse functions of complex numbers, on the branches of C's complex.h.
#include "emitters/math/complex.h"

AS_FUNCTION(acos)
AS_FUNCTION(asin)
AS_FUNCTION(sqrt)

void COMPLEX_FUNCTION(sqrt)(double re, double im, double* result_re, double* result_im) {
  if (re == 0 && im == 0) RETURN(0, im);
  if (is_infinite(im)) RETURN(INFINITE, im);
  if (is_infinite(re)) {
    const double other = is_nan(im) ? im : 0;
    if (re > 0) RETURN(re, is_nan(im) ? im : copysign_f64(0, im));
    RETURN(other, copysign_f64(INFINITE, im));
  }
  if (is_nan(re) || is_nan(im)) RETURN(NOT_A_NUMBER, NOT_A_NUMBER);
  // Scaled by an even power of two to about 1.
  const int half = exponent_of(larger(abs_f64(re), abs_f64(im))) >> 1;
  const double x = scale_f64(re, -2 * half);
  const double y = scale_f64(im, -2 * half);
  const double root = sqrt_f64(0.5 * (abs_f64(x) + sqrt_f64(fma_f64(x, x, y * y))));
  const double other = 0.5 * (y / root);
  const double power = power_of_two_f64(half);
  if (re >= 0) RETURN(root * power, other * power);
  RETURN(abs_f64(other) * power, copysign_f64(root, im) * power);
}

void COMPLEX_FUNCTION(rsqrt)(double re, double im, double* result_re, double* result_im) {
  const Complex root = complex_sqrt(complex_of(re, im));
  COMPLEX_FUNCTION(divide)(1, 0, root.re, root.im, result_re, result_im);
}

/// log|1 + x + iy| for numbers that are not large: half of log1p(2x + x² + y²), whose argument is added up exactly
/// enough where terms cancel.
static double log_size_near_one(double x, double y) {
  const double x_square = x * x;
  const double y_square = y * y;
  const Sum first = exact_sum(2 * x, x_square);
  const Sum second = exact_sum(first.high, y_square);
  const double low = first.low + second.low + (fma_f64(x, x, -x_square) + fma_f64(y, y, -y_square));
  return 0.5 * REAL_FUNCTION(log1p)(second.high + low);
}

/// log|x + iy|.
static double log_size(double x, double y) {
  const double long_side = larger(abs_f64(x), abs_f64(y));
  const double short_side = abs_f64(x) > abs_f64(y) ? abs_f64(y) : abs_f64(x);
  if (long_side > 0.5 && long_side < 1.5) {
    const double square = fma_f64(long_side, long_side, short_side * short_side);
    if (square > 0.5) return log_size_near_one(long_side - 1, short_side);
  }
  if (is_infinite(x) || is_infinite(y)) return INFINITE;
  const int exponent = exponent_of(long_side);
  const double size = COMPLEX_FUNCTION(abs)(x * power_of_two_f64(-exponent), y * power_of_two_f64(-exponent));
  return fma_f64((double)exponent, LN2, REAL_FUNCTION(log)(size));
}

void COMPLEX_FUNCTION(log)(double re, double im, double* result_re, double* result_im) {
  RETURN(log_size(re, im), REAL_FUNCTION(atan2)(im, re));
}

void COMPLEX_FUNCTION(log1p)(double re, double im, double* result_re, double* result_im) {
  const double angle = REAL_FUNCTION(atan2)(im, 1 + re);
  const int near = abs_f64(re) < 0.5 && abs_f64(im) < 1;
  RETURN(near ? log_size_near_one(re, im) : log_size(1 + re, im), angle);
}

/// |z| is so large that z² ± 1 is z².
static inline int is_large(double re, double im) { return larger(abs_f64(re), abs_f64(im)) > 0x1p500; }

// Kahan's formulas: products of the roots of 1 - z and 1 + z, whose signs of zero choose the side of the branch cut.
static inline void roots(double re, double im, Complex* minus, Complex* plus) {
  *minus = complex_sqrt(complex_of(1 - re, -im));
  *plus = complex_sqrt(complex_of(1 + re, im));
}

void COMPLEX_FUNCTION(acos)(double re, double im, double* result_re, double* result_im) {
  if (is_nan(re) || is_nan(im)) {
    if (is_infinite(re)) RETURN(NOT_A_NUMBER, re);
    if (is_infinite(im)) RETURN(NOT_A_NUMBER, -im);
    RETURN(re == 0 ? HALF_PI : NOT_A_NUMBER, NOT_A_NUMBER);
  }
  if (is_large(re, im)) {
    RETURN(REAL_FUNCTION(atan2)(abs_f64(im), re), -copysign_f64(log_size(re, im) + LN2, im));
  }
  Complex minus;
  Complex plus;
  roots(re, im, &minus, &plus);
  RETURN(2 * REAL_FUNCTION(atan2)(minus.re, plus.re), REAL_FUNCTION(asinh)(plus.re * minus.im - plus.im * minus.re));
}

void COMPLEX_FUNCTION(asin)(double re, double im, double* result_re, double* result_im) {
  if (is_nan(re) || is_nan(im)) {
    if (is_infinite(re)) RETURN(NOT_A_NUMBER, re);
    if (is_infinite(im)) RETURN(NOT_A_NUMBER, im);
    RETURN(re == 0 ? re : NOT_A_NUMBER, NOT_A_NUMBER);
  }
  if (is_large(re, im)) {
    RETURN(REAL_FUNCTION(atan2)(re, abs_f64(im)), copysign_f64(log_size(re, im) + LN2, im));
  }
  Complex minus;
  Complex plus;
  roots(re, im, &minus, &plus);
  RETURN(REAL_FUNCTION(atan2)(re, minus.re * plus.re - minus.im * plus.im),
         REAL_FUNCTION(asinh)(minus.re * plus.im - minus.im * plus.re));
}

/// i·acos(z) or -i·acos(z), whichever has a real part that is not negative.
void COMPLEX_FUNCTION(acosh)(double re, double im, double* result_re, double* result_im) {
  const Complex angle = complex_acos(complex_of(re, im));
  RETURN(is_nan(angle.im) ? angle.im : abs_f64(angle.im), copysign_f64(angle.re, im));
}

/// -i·asin(iz).
void COMPLEX_FUNCTION(asinh)(double re, double im, double* result_re, double* result_im) {
  const Complex angle = complex_asin(complex_of(-im, re));
  RETURN(angle.im, -angle.re);
}

void COMPLEX_FUNCTION(atanh)(double re, double im, double* result_re, double* result_im) {
  if (is_nan(re) || is_nan(im)) {
    if (is_infinite(re)) RETURN(copysign_f64(0, re), NOT_A_NUMBER);
    if (is_infinite(im)) RETURN(copysign_f64(0, re), copysign_f64(HALF_PI, im));
    RETURN(re == 0 ? re : NOT_A_NUMBER, NOT_A_NUMBER);
  }
  const double size = abs_f64(re);
  if (is_large(re, im)) {
    // The real part of 1/z; what comes of infinity is zero.
    Complex inverse;
    COMPLEX_FUNCTION(divide)(1, 0, re, im, &inverse.re, &inverse.im);
    RETURN(copysign_f64(inverse.re, re), copysign_f64(HALF_PI, im));
  }
  const double gap = 1 - size;
  const double divisor = fma_f64(gap, gap, im * im);
  // The square of a tiny imaginary part may be 0, so next to 1 only its logarithm is taken.
  const double growth = gap == 0 && abs_f64(im) < 0x1p-60 ? 0.5 * (LN2 - REAL_FUNCTION(log)(abs_f64(im)))
                                                          : 0.25 * REAL_FUNCTION(log1p)(4 * (size / divisor));
  RETURN(copysign_f64(growth, re), 0.5 * REAL_FUNCTION(atan2)(2 * im, fma_f64(gap, 1 + size, -(im * im))));
}
