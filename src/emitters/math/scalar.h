// What the functions of this folder are made of: operations that are one instruction, or a few, on both targets.
#pragma once

#include <stdint.h>

static inline float fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double fma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline float abs_f32(float x) { return __builtin_fabsf(x); }
static inline double abs_f64(double x) { return __builtin_fabs(x); }
static inline float sqrt_f32(float x) { return __builtin_sqrtf(x); }
static inline double sqrt_f64(double x) { return __builtin_sqrt(x); }
static inline float trunc_f32(float x) { return __builtin_truncf(x); }
static inline double trunc_f64(double x) { return __builtin_trunc(x); }

static inline uint32_t bits_f32(float x) {
  union {
    float value;
    uint32_t bits;
  } u = {.value = x};
  return u.bits;
}
static inline float of_bits_f32(uint32_t bits) {
  union {
    uint32_t bits;
    float value;
  } u = {.bits = bits};
  return u.value;
}
static inline uint64_t bits_f64(double x) {
  union {
    double value;
    uint64_t bits;
  } u = {.value = x};
  return u.bits;
}
static inline double of_bits_f64(uint64_t bits) {
  union {
    uint64_t bits;
    double value;
  } u = {.bits = bits};
  return u.value;
}

// Of bits, because LLVM 19 makes selects of copysign on NVPTX.
static inline float copysign_f32(float x, float sign) {
  return of_bits_f32((bits_f32(x) & 0x7fffffffU) | (bits_f32(sign) & 0x80000000U));
}
static inline double copysign_f64(double x, double sign) {
  return of_bits_f64((bits_f64(x) & ~(uint64_t)0 >> 1) | (bits_f64(sign) & (uint64_t)1 << 63));
}

/// 2^n, for an n whose power is a normal number.
static inline float power_of_two_f32(int n) { return of_bits_f32(((uint32_t)n + 127U) << 23); }
static inline double power_of_two_f64(int n) { return of_bits_f64((uint64_t)((uint32_t)n + 1023U) << 52); }

/// x · 2^n rounded once, for x of about 1 and any n to twice the range of exponents.
static inline float scale_f32(float x, int n) { return x * power_of_two_f32(n >> 1) * power_of_two_f32(n - (n >> 1)); }
static inline double scale_f64(double x, int n) {
  return x * power_of_two_f64(n >> 1) * power_of_two_f64(n - (n >> 1));
}

#if defined(__NVPTX__)
/// The smaller one; x within [low, high]. NaN stays NaN.
static inline float at_most_f32(float x, float high) { return __nvvm_fmin_nan_f(x, high); }
static inline float clamp_f32(float x, float low, float high) {
  return __nvvm_fmax_nan_f(__nvvm_fmin_nan_f(x, high), low);
}
// Those that are wrong by what PTX's manual allows. "Normal" ones make 0 of subnormal numbers.
static inline float approximate_reciprocal_f32(float x) { return __nvvm_rcp_approx_ftz_f(x); }
static inline float approximate_rsqrt_f32(float x) { return __nvvm_rsqrt_approx_f(x); }
static inline float approximate_rsqrt_normal_f32(float x) { return __nvvm_rsqrt_approx_ftz_f(x); }
static inline float approximate_exp2_f32(float x) { return __nvvm_ex2_approx_f(x); }
static inline float approximate_exp2_normal_f32(float x) { return __nvvm_ex2_approx_ftz_f(x); }
static inline float approximate_log2_f32(float x) { return __nvvm_lg2_approx_f(x); }
static inline float approximate_log2_normal_f32(float x) { return __nvvm_lg2_approx_ftz_f(x); }
static inline float approximate_tanh_f32(float x) {
  float result;
  __asm__("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
/// a / b for all numbers, to 2 ulp.
static inline float approximate_quotient_f32(float a, float b) {
  float result;
  __asm__("div.full.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
/// a · b + c within [0, 1]; 0 for NaN.
static inline float saturated_fma_f32(float a, float b, float c) {
  float result;
  __asm__("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
  return result;
}
#else
static inline float at_most_f32(float x, float high) { return x > high ? high : x; }
static inline float clamp_f32(float x, float low, float high) {
  x = x > high ? high : x;
  return x < low ? low : x;
}
#if defined(STRATA_MATH_EMULATE_NVPTX)
// Tests only: instructions that are wrong by what PTX's manual allows.
float approximate_reciprocal_f32(float x);
float approximate_rsqrt_f32(float x);
float approximate_rsqrt_normal_f32(float x);
float approximate_exp2_f32(float x);
float approximate_exp2_normal_f32(float x);
float approximate_log2_f32(float x);
float approximate_log2_normal_f32(float x);
float approximate_tanh_f32(float x);
float approximate_quotient_f32(float a, float b);
static inline float saturated_fma_f32(float a, float b, float c) {
  const float sum = fma_f32(a, b, c);
  return sum > 1 ? 1 : sum > 0 ? sum : 0;
}
#else
static inline float approximate_reciprocal_f32(float x) { return 1.0F / x; }
static inline float approximate_quotient_f32(float a, float b) { return a / b; }
#endif
#endif
static inline double at_most_f64(double x, double high) { return x > high ? high : x; }
static inline double clamp_f64(double x, double low, double high) {
  x = x > high ? high : x;
  return x < low ? low : x;
}
