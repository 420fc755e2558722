#include "emitters/math/polynomials.h"
#include "emitters/math/strata_math.h"

#define REAL float
#define BITS uint32_t
#define SIGNED int32_t
#define N(name) name##_f32
#define PUBLIC(name) STRATA_MATH_SYMBOL(strata_##name##_f32)

#define MANTISSA_BITS 23
#define MANTISSA_MASK 0x7fffffU
#define EXPONENT_BIAS 127
#define INFINITE __builtin_inff()
#define NOT_A_NUMBER __builtin_nanf("")
#define SMALLEST_NORMAL 0x1p-126F
#define INVERSE_SMALLEST_NORMAL 0x1p126F
#define SUBNORMAL_SCALE 0x1p24F
#define TINY 0x1p-26F
#define LARGE 0x1p60F
#define INVERSE_LARGE 0x1p-60F
#define LARGE_EXPONENT 60
#define EVEN_FROM 0x1p24F
#define COUNTED 0x1p22F
#define ROUNDER 0x1.8p23F
#define LOG2_E 0x1.715476p+0F
#define LN2 0x1.62e430p-1F
#define LN2_HIGH 0x1.62e430p-1F
#define LN2_LOW (-0x1.05c610p-29F)
#define TWO_THIRDS 0x1.555556p-1F
#define HALF_PI_HIGH 0x1.921fb6p+0F
#define HALF_PI_LOW (-0x1.777a5cp-25F)
#define HALF_PI_LOWEST (-0x1.ee59dap-50F)
#define QUARTER_PI_HIGH 0x1.921fb0p-1F
#define QUARTER_PI_LOW 0x1.5110b4p-23F
#define TWO_OVER_PI 0x1.45f306p-1F
// Below, three numbers are enough for pi/2, and the polynomials' interval holds what rounding leaves.
#define SHORT_ANGLE 16384.0F
// The overflow of sinh and cosh is the last one, and halves of what is lost below the subnormal numbers are 0.
#define EXP_LOWEST (-104.0F)
#define EXP_HIGHEST 90.0F
#define EXPM1_LOWEST (-20.0F)
#define EXPM1_HIGHEST 88.8F
#define ERF_IS_ONE 4.0F
#define CBRT_STEPS 1
#define REMAINDER_STEP 40

/// In double, where neither the logarithm nor its product needs a second number.
static inline float pow_of_positive_f32(float x, float y) {
  const uint64_t bits = bits_f64((double)x);
  const int k = (int)((int64_t)(bits - bits_f64(0x1.6a09e667f3bcdp-1)) >> 52);
  const double f = of_bits_f64(bits - ((uint64_t)(int64_t)k << 52)) - 1;
  const double exponent = clamp_f64((double)y * fma_f64(f, pow_log2_f64(f), (double)k), -160, 160);
  const double shifted = exponent + 0x1.8p52;
  const double rest = exponent - (shifted - 0x1.8p52);
  const int n = (int)(uint32_t)bits_f64(shifted);
  return (float)(pow_exp2_f64(rest) * power_of_two_f64(n));
}

#include "emitters/math/exp_log.inc"
#include "emitters/math/real_functions.inc"
#include "emitters/math/trigonometric.inc"

static __attribute__((noinline)) int long_quarter_turns_f32(float x, float* rest) {
  double wide;
  const int quarters = STRATA_MATH_SYMBOL(strata_quarter_turns_f64)((double)x, &wide);
  *rest = (float)wide;
  return quarters;
}

float PUBLIC(tanh)(float x) {
  const float size = abs_f32(x);
  const float z = x * x;
  const float near = fma_f32(size * z, tanh_tail_f32(z), size);
  const float sum = exp_normal_f32(2 * at_most_f32(size, 10)) + 1;
  const float far = 1 - quotient_f32(2, sum);
  return copysign_f32(size < 0.66F ? near : far, x);
}

float PUBLIC(rsqrt)(float x) {
#if defined(__NVPTX__) || defined(STRATA_MATH_EMULATE_NVPTX)
  return approximate_rsqrt_f32(x);
#else
  return 1 / sqrt_f32(x);
#endif
}
