// Stand-ins for NVPTX's approximate instructions, called by f32.c and half_precision.c as the tests compile them.
#include <bit>
#include <cmath>
#include <cstdint>

#include "emitters/math/strata_math.h"

namespace {

/// -1 or 1, or something in between, by chance.
double chance(float x) {
  const uint32_t hash = (std::bit_cast<uint32_t>(x) ^ 0x5bd1e995U) * 0x9e3779b1U;
  return (hash >> 30) == 0 ? static_cast<double>(hash & 0xffff) / 65536 : (hash >> 31) != 0 ? 1 : -1;
}

}  // namespace

extern "C" {

float approximate_reciprocal_f32(float x) {
  return static_cast<float>(1 / static_cast<double>(x) * (1 + chance(x) * 0x1p-23));
}

float approximate_rsqrt_f32(float x) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(x)) * (1 + chance(x) * std::exp2(-22.9)));
}

float approximate_rsqrt_normal_f32(float x) {
  return approximate_rsqrt_f32(std::fabs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x);
}

float approximate_exp2_f32(float x) {
  return static_cast<float>(std::exp2(static_cast<double>(x)) * (1 + chance(x) * 0x1p-22));
}

float approximate_exp2_normal_f32(float x) {
  const float result = approximate_exp2_f32(x);
  return result < 0x1p-126F ? 0 : result;
}

float approximate_quotient_f32(float a, float b) {
  // 2 ulp are between 2^-23 and 2^-22.
  return static_cast<float>(static_cast<double>(a) / static_cast<double>(b) * (1 + chance(a + b) * 0x1.8p-23));
}

float approximate_log2_f32(float x) {
  const double exact = std::log2(static_cast<double>(x));
  const double size = std::fabs(exact);
  if (!(size > 0) || std::isinf(size)) return static_cast<float>(exact);
  return static_cast<float>(exact + chance(x) * 0x1p-22 * (size > 1 ? size : 1));
}

float approximate_log2_normal_f32(float x) {
  return approximate_log2_f32(std::fabs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x);
}

float approximate_tanh_f32(float x) {
  return static_cast<float>(std::tanh(static_cast<double>(x)) * (1 + chance(x) * 0x1p-11));
}

int emulated_strata_quarter_turns_f64(double x, double* rest) { return strata_quarter_turns_f64(x, rest); }

}  // extern "C"
