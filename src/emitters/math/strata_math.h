/// @file
/// Scalar functions for generated code, where neither LLVM nor the target has an instruction: freestanding C, which the
/// build compiles to bitcode (math_library.h). Bounds of errors are in strata_math.def.
///
/// Special values, signed zeros and subnormal numbers are those of C's functions of the same name: exp, log, pow, ... .
/// Where the names differ: remainder is fmod (the sign of x, exact), round_afz is round, rsqrt is 1/sqrt and logistic
/// 1/(1 + exp(-x)). Subnormal numbers are kept, so code around these functions must not be compiled to flush them.
///
/// Complex numbers are pairs of their parts. The functions follow C's complex.h (and the branch cuts there); expm1,
/// log1p, logistic, rsqrt, sign and atan2 are extended as HLO's interpreter does. c64 is computed in double.
///
/// The small floats are bits: rounded to nearest even, NaN kept, as src/hlo/small_float.h has them.
#pragma once

#include <stdint.h>

/// The name under which a function is defined; tests compile the sources under other names too.
#ifndef STRATA_MATH_SYMBOL
#define STRATA_MATH_SYMBOL(name) name
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define STRATA_MATH_REAL1(name, ulp_f32, ulp_nvptx, ulp_f64) \
  float STRATA_MATH_SYMBOL(strata_##name##_f32)(float x);    \
  double STRATA_MATH_SYMBOL(strata_##name##_f64)(double x);
#define STRATA_MATH_REAL2(name, ulp_f32, ulp_nvptx, ulp_f64)       \
  float STRATA_MATH_SYMBOL(strata_##name##_f32)(float x, float y); \
  double STRATA_MATH_SYMBOL(strata_##name##_f64)(double x, double y);
#define STRATA_MATH_HALF(name) float STRATA_MATH_SYMBOL(strata_##name##_f32_half)(float x);
#define STRATA_MATH_BF16(name) float STRATA_MATH_SYMBOL(strata_##name##_f32_bf16)(float x);
#define STRATA_MATH_COMPLEX1(name)                                                                      \
  void STRATA_MATH_SYMBOL(strata_##name##_c64)(float re, float im, float* result_re, float* result_im); \
  void STRATA_MATH_SYMBOL(strata_##name##_c128)(double re, double im, double* result_re, double* result_im);
#define STRATA_MATH_COMPLEX2(name)                                                                                 \
  void STRATA_MATH_SYMBOL(strata_##name##_c64)(float re1, float im1, float re2, float im2, float* result_re,       \
                                               float* result_im);                                                  \
  void STRATA_MATH_SYMBOL(strata_##name##_c128)(double re1, double im1, double re2, double im2, double* result_re, \
                                                double* result_im);
#define STRATA_MATH_SMALL(type, bits)                      \
  bits STRATA_MATH_SYMBOL(strata_f32_to_##type)(float x);  \
  bits STRATA_MATH_SYMBOL(strata_f64_to_##type)(double x); \
  float STRATA_MATH_SYMBOL(strata_##type##_to_f32)(bits code);
#include "emitters/math/strata_math.def"
#undef STRATA_MATH_REAL1
#undef STRATA_MATH_REAL2
#undef STRATA_MATH_HALF
#undef STRATA_MATH_BF16
#undef STRATA_MATH_COMPLEX1
#undef STRATA_MATH_COMPLEX2
#undef STRATA_MATH_SMALL

/// The absolute value, without overflow on the way, to 2 ulp.
float STRATA_MATH_SYMBOL(strata_abs_c64)(float re, float im);
double STRATA_MATH_SYMBOL(strata_abs_c128)(double re, double im);

/// The inverse of erf: NaN outside [-1, 1], infinite at both ends; to 4 ulp, on NVPTX 6.
float STRATA_MATH_SYMBOL(strata_erf_inv_f32)(float x);

/// x / y and the square root, on NVPTX without a branch: 0.51 ulp there, quotients below 2^-100 2 ulp (0 in place of
/// the smallest), and from there on exact where the result is a normal float. Of quotients the last four numbers before
/// infinity may be infinite.
float STRATA_MATH_SYMBOL(strata_divide_f32)(float x, float y);
float STRATA_MATH_SYMBOL(strata_sqrt_f32)(float x);

/// 1 / x where x and the inverse are normal numbers, zeros or infinite, to 0.51 ulp.
float STRATA_MATH_SYMBOL(strata_inverse_f32)(float x);

/// pow(x, quarters / 4) for quarters within ±12 but 0, to 5 ulp.
float STRATA_MATH_SYMBOL(strata_pow_quarters_f32)(float x, int32_t quarters);

/// x / y for results that are rounded to f16 or bf16, to 2 ulp of f32.
float STRATA_MATH_SYMBOL(strata_divide_f32_half)(float x, float y);

/// x = (the result, modulo 4) · pi/2 + *rest, |*rest| ≤ pi/4 but for rounding: what all trigonometric functions do
/// first.
int STRATA_MATH_SYMBOL(strata_quarter_turns_f64)(double x, double* rest);

#ifdef __cplusplus
}
#endif
