// The f32 functions as they are compiled for NVPTX, with its approximate instructions as wrong as PTX's manual allows
// them to be (emulated_nvptx.cpp), under names of their own. For tests.
#pragma once

#include <cstdint>

extern "C" {
#define STRATA_MATH_REAL1(name, ulp_f32, ulp_nvptx, ulp_f64) float emulated_strata_##name##_f32(float x);
#define STRATA_MATH_REAL2(name, ulp_f32, ulp_nvptx, ulp_f64) float emulated_strata_##name##_f32(float x, float y);
#define STRATA_MATH_HALF(name) float emulated_strata_##name##_f32_half(float x);
#define STRATA_MATH_BF16(name) float emulated_strata_##name##_f32_bf16(float x);
#define STRATA_MATH_COMPLEX1(name)
#define STRATA_MATH_COMPLEX2(name)
#define STRATA_MATH_SMALL(type, bits)
#include "emitters/math/strata_math.def"
float emulated_strata_erf_inv_f32(float x);
float emulated_strata_divide_f32(float x, float y);
float emulated_strata_sqrt_f32(float x);
float emulated_strata_inverse_f32(float x);
float emulated_strata_pow_quarters_f32(float x, int32_t quarters);
float emulated_strata_divide_f32_half(float x, float y);
#undef STRATA_MATH_REAL1
#undef STRATA_MATH_REAL2
#undef STRATA_MATH_HALF
#undef STRATA_MATH_BF16
#undef STRATA_MATH_COMPLEX1
#undef STRATA_MATH_COMPLEX2
#undef STRATA_MATH_SMALL
}
