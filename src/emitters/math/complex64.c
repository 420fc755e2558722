// Functions of c64, computed in double and rounded: what overflows or cancels in float on the way does not in double.
#include "emitters/math/strata_math.h"

#define STRATA_MATH_REAL1(name, ulp_f32, ulp_nvptx, ulp_f64)
#define STRATA_MATH_REAL2(name, ulp_f32, ulp_nvptx, ulp_f64)
#define STRATA_MATH_HALF(name)
#define STRATA_MATH_BF16(name)
#define STRATA_MATH_SMALL(type, bits)
#define STRATA_MATH_COMPLEX1(name)                                                                       \
  void STRATA_MATH_SYMBOL(strata_##name##_c64)(float re, float im, float* result_re, float* result_im) { \
    double wide_re;                                                                                      \
    double wide_im;                                                                                      \
    STRATA_MATH_SYMBOL(strata_##name##_c128)((double)re, (double)im, &wide_re, &wide_im);                \
    *result_re = (float)wide_re;                                                                         \
    *result_im = (float)wide_im;                                                                         \
  }
#define STRATA_MATH_COMPLEX2(name)                                                                           \
  void STRATA_MATH_SYMBOL(strata_##name##_c64)(float re1, float im1, float re2, float im2, float* result_re, \
                                               float* result_im) {                                           \
    double wide_re;                                                                                          \
    double wide_im;                                                                                          \
    STRATA_MATH_SYMBOL(strata_##name##_c128)                                                                 \
    ((double)re1, (double)im1, (double)re2, (double)im2, &wide_re, &wide_im);                                \
    *result_re = (float)wide_re;                                                                             \
    *result_im = (float)wide_im;                                                                             \
  }
#include "emitters/math/strata_math.def"

/// The squares of floats neither overflow nor vanish in double.
float STRATA_MATH_SYMBOL(strata_abs_c64)(float re, float im) {
  const double x = (double)re;
  const double y = (double)im;
  if (__builtin_fabs(x) == __builtin_inf() || __builtin_fabs(y) == __builtin_inf()) return __builtin_inff();
  return (float)__builtin_sqrt(x * x + y * y);
}
