// Functions for results that are rounded to f16 or bf16: fewer steps, relative errors of at most 2^-13.
#include "emitters/math/polynomials.h"
#include "emitters/math/strata_math.h"

#define PUBLIC(name) STRATA_MATH_SYMBOL(strata_##name)

#if !defined(__NVPTX__) && !defined(STRATA_MATH_EMULATE_NVPTX)
/// Stands in for the instruction, with a smaller error.
static inline float approximate_exp2_f32(float x) {
  const float bounded = clamp_f32(x, -160, 160);
  const float shifted = bounded + 0x1.8p23F;
  const float rest = (bounded - (shifted - 0x1.8p23F)) * 0x1.62e430p-1F;
  const float power = 1 + fma_f32(rest * rest, exp_tail_f32(rest), rest);
  return scale_f32(power, (int)(bits_f32(shifted) - bits_f32(0x1.8p23F)));
}
static inline float approximate_exp2_normal_f32(float x) { return approximate_exp2_f32(x); }
static inline float approximate_log2_f32(float x) { return STRATA_MATH_SYMBOL(strata_log_f32)(x) * 0x1.715476p+0F; }
#endif

#define LOG2_E 0x1.715476p+0F

/// 4^x. The square is subnormal where it must be, though the instruction does not make subnormal numbers.
static inline float approximate_exp4_f32(float x) {
  const float root = approximate_exp2_normal_f32(x);
  return root * root;
}

float PUBLIC(exp_f32_half)(float x) { return approximate_exp4_f32(x * (LOG2_E / 2)); }

float PUBLIC(logistic_f32_half)(float x) {
  // A quotient of e^x rather than the inverse of 1 + e^-x keeps small results that are still bf16.
  const float e = approximate_exp4_f32(-abs_f32(x) * (LOG2_E / 2));
  return (x < 0 ? e : 1) * approximate_reciprocal_f32(1 + e);
}

float PUBLIC(tanh_f32_half)(float x) {
  const float z = x * x;
  const float size = abs_f32(x);
  const float near = fma_f32(size * z, tanh_half_tail_f32(z), size);
  const float far = fma_f32(-2, approximate_reciprocal_f32(approximate_exp2_f32(size * (2 * LOG2_E)) + 1), 1);
  return copysign_f32(size < 0.4F ? near : far, x);
}

float PUBLIC(tanh_f32_bf16)(float x) {
#if defined(__NVPTX__) || defined(STRATA_MATH_EMULATE_NVPTX)
  return approximate_tanh_f32(x);
#else
  return PUBLIC(tanh_f32_half)(x);
#endif
}

float PUBLIC(erf_f32_half)(float x) {
  const float size = abs_f32(x);
  const float near = x * erf_half_quotient_f32(x * x);
  const float bounded = at_most_f32(size, 4);
  const float far = 1 - approximate_exp2_f32(bounded * erfc_half_log2_f32(bounded));
  return size < 0.5F ? near : copysign_f32(far, x);
}

/// erfc(a) = exp(-a²) · t · P(t), t = 1 / (a + 3/2).
float PUBLIC(erfc_f32_half)(float x) {
  const float a = abs_f32(x);
  const float t = approximate_reciprocal_f32(a + 1.5F);
  const float power = approximate_exp4_f32(a * a * (-LOG2_E / 2));
  const float result = power * (t * erfc_half_factor_f32(t));
  return x < 0 ? 2 - result : result;
}

float PUBLIC(divide_f32_half)(float x, float y) { return approximate_quotient_f32(x, y); }

float PUBLIC(log_f32_half)(float x) {
  const float f = x - 1;
  const float near = fma_f32(f * f, log_half_tail_f32(f), f);
  const float far = approximate_log2_f32(x) * 0x1.62e430p-1F;
  return abs_f32(f) < 0.25F ? near : far;
}
