// bfloat16 as bits: the upper half of a float32.
#pragma once

#include <bit>
#include <cstdint>

namespace strata::megakernel {

constexpr float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

/// The nearest value, ties to even; overflow becomes infinity, and NaN stays NaN.
constexpr uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace strata::megakernel
