// Arithmetic, exponential and hyperbolic functions of complex numbers. Special values are those of C's annex G.
#include "emitters/math/complex.h"

AS_FUNCTION(exp)
AS_FUNCTION(log)
AS_FUNCTION(sinh)
AS_FUNCTION(sqrt)
AS_FUNCTION(tanh)

double COMPLEX_FUNCTION(abs)(double re, double im) {
  if (is_infinite(re) || is_infinite(im)) return INFINITE;
  const int exponent = exponent_of(larger(abs_f64(re), abs_f64(im)));
  const double x = re * power_of_two_f64(-exponent);
  const double y = im * power_of_two_f64(-exponent);
  return sqrt_f64(fma_f64(x, x, y * y)) * power_of_two_f64(exponent);
}

void COMPLEX_FUNCTION(sign)(double re, double im, double* result_re, double* result_im) {
  const double size = COMPLEX_FUNCTION(abs)(re, im);
  if (size == 0) RETURN(re, im);
  if (is_finite(size)) {
    // Powers of two first, so that subnormal numbers keep what they have.
    const int exponent = exponent_of(size);
    const double scaled = size * power_of_two_f64(-exponent);
    RETURN(re * power_of_two_f64(-exponent) / scaled, im * power_of_two_f64(-exponent) / scaled);
  }
  RETURN(re / size, im / size);
}

void COMPLEX_FUNCTION(multiply)(double re1, double im1, double re2, double im2, double* result_re, double* result_im) {
  RETURN(re1 * re2 - im1 * im2, re1 * im2 + im1 * re2);
}

/// a·b + c·d with one rounding error more than fma; what is zero or not finite is as without fma.
static inline double sum_of_products(double a, double b, double c, double d) {
  const double second = c * d;
  const double sum = fma_f64(a, b, second) + fma_f64(c, d, -second);
  return sum == 0 || !is_finite(sum) ? a * b + second : sum;
}

/// The sign that a part of a quotient has where it is zero, by Smith's formula: most C libraries divide by it, and
/// logarithms of quotients depend on it. The part is (a·c + b·d) / (c² + d²).
static double signed_zero(double a, double b, double c, double d) {
  const int swap = abs_f64(c) < abs_f64(d);
  const double ratio = swap ? c / d : d / c;
  const double divisor = swap ? c * ratio + d : c + d * ratio;
  return copysign_f64(0, (swap ? a * ratio + b : a + b * ratio) / divisor);
}

void COMPLEX_FUNCTION(divide)(double re1, double im1, double re2, double im2, double* result_re, double* result_im) {
  // Both are scaled to about 1, so that nothing overflows on the way.
  const int up = exponent_of(larger(abs_f64(re1), abs_f64(im1)));
  const int down = exponent_of(larger(abs_f64(re2), abs_f64(im2)));
  const double a = re1 * power_of_two_f64(-up);
  const double b = im1 * power_of_two_f64(-up);
  const double c = re2 * power_of_two_f64(-down);
  const double d = im2 * power_of_two_f64(-down);
  const double square = fma_f64(c, c, d * d);
  double re = scale_f64(sum_of_products(a, c, b, d) / square, up - down);
  double im = scale_f64(sum_of_products(b, c, -a, d) / square, up - down);
  if (re == 0) re = signed_zero(re1, im1, re2, im2);
  if (im == 0) im = signed_zero(im1, -re1, re2, im2);
  if (!is_nan(re) || !is_nan(im)) RETURN(re, im);

  const int infinite1 = is_infinite(re1) || is_infinite(im1);
  const int infinite2 = is_infinite(re2) || is_infinite(im2);
  if (re2 == 0 && im2 == 0 && (!is_nan(re1) || !is_nan(im1))) {
    const double infinity = copysign_f64(INFINITE, re2);
    RETURN(infinity * re1, infinity * im1);
  }
  if (infinite1 && is_finite(re2) && is_finite(im2)) {
    const double x = copysign_f64(is_infinite(re1) ? 1 : 0, re1);
    const double y = copysign_f64(is_infinite(im1) ? 1 : 0, im1);
    RETURN(INFINITE * (x * re2 + y * im2), INFINITE * (y * re2 - x * im2));
  }
  if (infinite2 && is_finite(re1) && is_finite(im1)) {
    if (is_finite(re2) || is_finite(im2)) RETURN(signed_zero(re1, im1, re2, im2), signed_zero(im1, -re1, re2, im2));
    const double x = copysign_f64(is_infinite(re2) ? 1 : 0, re2);
    const double y = copysign_f64(is_infinite(im2) ? 1 : 0, im2);
    RETURN(0 * (re1 * x + im1 * y), 0 * (im1 * x - re1 * y));
  }
  RETURN(re, im);
}

void COMPLEX_FUNCTION(exp)(double re, double im, double* result_re, double* result_im) {
  if (im == 0) RETURN(REAL_FUNCTION(exp)(re), im);
  if (!is_finite(im)) {
    if (re == -INFINITE) RETURN(0, copysign_f64(0, im));
    RETURN(re == INFINITE ? INFINITE : NOT_A_NUMBER, NOT_A_NUMBER);
  }
  // Where e^x overflows its products need not, and tiny ones must not lose digits on the way.
  const int large = re > 709;
  const double second = large ? REAL_FUNCTION(exp)(re < 1500 ? 709 : INFINITE) : 1;
  const double first = REAL_FUNCTION(exp)(large ? re - 709 : re);
  RETURN(REAL_FUNCTION(cos)(im) * second * first, REAL_FUNCTION(sin)(im) * second * first);
}

void COMPLEX_FUNCTION(expm1)(double re, double im, double* result_re, double* result_im) {
  if (!is_finite(im) || !(abs_f64(re) < 40)) {
    const Complex e = complex_exp(complex_of(re, im));
    RETURN(e.re - 1, e.im);
  }
  // e^x cos(y) - 1 = (e^x - 1) cos(y) - 2 sin(y/2)^2.
  const double half = REAL_FUNCTION(sin)(0.5 * im);
  const double grown = REAL_FUNCTION(expm1)(re);
  const double sine = REAL_FUNCTION(sin)(im);
  RETURN(fma_f64(-2 * half, half, grown * REAL_FUNCTION(cos)(im)), im == 0 ? im : fma_f64(grown, sine, sine));
}

void COMPLEX_FUNCTION(logistic)(double re, double im, double* result_re, double* result_im) {
  const Complex e = complex_exp(complex_of(-re, -im));
  COMPLEX_FUNCTION(divide)(1, 0, 1 + e.re, e.im, result_re, result_im);
}

/// e^size · 2^-1 in two factors, of which only the product may overflow.
static inline void half_exp(double size, double* first, double* second) {
  const int large = size > 709;
  *second = large ? REAL_FUNCTION(exp)(size < 1500 ? 709 : INFINITE) : 1;
  *first = 0.5 * REAL_FUNCTION(exp)(large ? size - 709 : size);
}

void COMPLEX_FUNCTION(sinh)(double re, double im, double* result_re, double* result_im) {
  if (im == 0) RETURN(REAL_FUNCTION(sinh)(re), im);
  if (!is_finite(im)) {
    if (re == 0) RETURN(re, NOT_A_NUMBER);
    RETURN(is_infinite(re) ? re : NOT_A_NUMBER, NOT_A_NUMBER);
  }
  const double cosine = REAL_FUNCTION(cos)(im);
  const double sine = REAL_FUNCTION(sin)(im);
  if (abs_f64(re) < 40) RETURN(REAL_FUNCTION(sinh)(re) * cosine, REAL_FUNCTION(cosh)(re) * sine);
  double first;
  double second;
  half_exp(abs_f64(re), &first, &second);
  RETURN(cosine * second * copysign_f64(first, re), sine * second * first);
}

void COMPLEX_FUNCTION(cosh)(double re, double im, double* result_re, double* result_im) {
  if (im == 0) RETURN(REAL_FUNCTION(cosh)(re), is_nan(re) ? im : copysign_f64(1, re) * im);
  if (!is_finite(im)) {
    if (re == 0) RETURN(NOT_A_NUMBER, 0);
    RETURN(is_infinite(re) ? INFINITE : NOT_A_NUMBER, NOT_A_NUMBER);
  }
  const double cosine = REAL_FUNCTION(cos)(im);
  const double sine = REAL_FUNCTION(sin)(im);
  if (abs_f64(re) < 40) RETURN(REAL_FUNCTION(cosh)(re) * cosine, REAL_FUNCTION(sinh)(re) * sine);
  double first;
  double second;
  half_exp(abs_f64(re), &first, &second);
  RETURN(cosine * second * first, sine * second * copysign_f64(first, re));
}

void COMPLEX_FUNCTION(tanh)(double re, double im, double* result_re, double* result_im) {
  if (is_nan(re)) RETURN(re, im == 0 ? im : NOT_A_NUMBER);
  if (abs_f64(re) > 22) {
    if (!is_finite(im))
      RETURN(is_infinite(re) ? copysign_f64(1, re) : NOT_A_NUMBER, is_infinite(re) ? 0 : NOT_A_NUMBER);
    const double size = REAL_FUNCTION(exp)(-abs_f64(re));
    RETURN(copysign_f64(1, re), 4 * REAL_FUNCTION(sin)(im) * REAL_FUNCTION(cos)(im) * size * size);
  }
  if (!is_finite(im)) RETURN(re == 0 ? re : NOT_A_NUMBER, NOT_A_NUMBER);
  // Kahan's: no cancellation near the poles.
  const double tangent = REAL_FUNCTION(tan)(im);
  const double sine = REAL_FUNCTION(sinh)(re);
  const double beta = fma_f64(tangent, tangent, 1);
  const double rho = sqrt_f64(fma_f64(sine, sine, 1));
  if (is_infinite(beta)) RETURN(rho / sine, 1 / tangent);
  const double divisor = fma_f64(beta * sine, sine, 1);
  RETURN(beta * rho * sine / divisor, tangent / divisor);
}

// sin(z) = -i sinh(iz), cos(z) = cosh(iz), tan(z) = -i tanh(iz).
void COMPLEX_FUNCTION(sin)(double re, double im, double* result_re, double* result_im) {
  const Complex w = complex_sinh(complex_of(-im, re));
  RETURN(w.im, -w.re);
}
void COMPLEX_FUNCTION(cos)(double re, double im, double* result_re, double* result_im) {
  COMPLEX_FUNCTION(cosh)(-im, re, result_re, result_im);
}
void COMPLEX_FUNCTION(tan)(double re, double im, double* result_re, double* result_im) {
  const Complex w = complex_tanh(complex_of(-im, re));
  RETURN(w.im, -w.re);
}

void COMPLEX_FUNCTION(pow)(double re1, double im1, double re2, double im2, double* result_re, double* result_im) {
  if (re2 == 0 && im2 == 0) RETURN(1, 0);
  if (re1 == 0 && im1 == 0 && re2 > 0) RETURN(0, 0);
  const Complex log = complex_log(complex_of(re1, im1));
  COMPLEX_FUNCTION(exp)
  (sum_of_products(re2, log.re, -im2, log.im), sum_of_products(re2, log.im, im2, log.re), result_re, result_im);
}

/// -i · log((x + i·y) / sqrt(x² + y²)).
void COMPLEX_FUNCTION(atan2)(double re1, double im1, double re2, double im2, double* result_re, double* result_im) {
  Complex square1;
  Complex square2;
  COMPLEX_FUNCTION(multiply)(re1, im1, re1, im1, &square1.re, &square1.im);
  COMPLEX_FUNCTION(multiply)(re2, im2, re2, im2, &square2.re, &square2.im);
  const Complex root = complex_sqrt(complex_of(square1.re + square2.re, square1.im + square2.im));
  Complex quotient;
  COMPLEX_FUNCTION(divide)(re2 - im1, im2 + re1, root.re, root.im, &quotient.re, &quotient.im);
  const Complex log = complex_log(quotient);
  RETURN(log.im, -log.re);
}
