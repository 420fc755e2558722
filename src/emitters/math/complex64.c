// Functions of c64, computed in double and rounded: what overflows or cancels in float on the way does not in double.
#include "emitters/math/scalar.h"
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

/// In f32, for it is the one function of c64 whose result is no sum that cancels: scaled by powers of two, so that
/// squares neither overflow nor vanish.
float STRATA_MATH_SYMBOL(strata_abs_c64)(float re, float im) {
  const uint32_t infinite = 0x7f800000U;
  const uint32_t x = bits_f32(re) & 0x7fffffffU;
  const uint32_t y = bits_f32(im) & 0x7fffffffU;
  const uint32_t most = x > y ? x : y;  // bits are in the order of absolute values
  const int up = most < (127U - 60U) << 23;
  const int down = most > (127U + 60U) << 23;
  const float factor = up ? 0x1p100f : down ? 0x1p-80f : 1.0F;
  const float back = up ? 0x1p-100f : down ? 0x1p80f : 1.0F;
  const float a = of_bits_f32(x) * factor;
  const float b = of_bits_f32(y) * factor;
  const float squares = fma_f32(a, a, b * b);
#if defined(__NVPTX__)
  // The square root of a normal number, without the instructions for others.
  const float inverse = approximate_rsqrt_f32(squares);
  const float near = squares * inverse;
  const float root = fma_f32(fma_f32(-near, near, squares), 0.5F * inverse, near);
#else
  const float root = sqrt_f32(squares);
#endif
  const float size = most == 0 ? 0.0F : root * back;
  return x == infinite || y == infinite ? of_bits_f32(infinite) : size;
}
