#include "emitters/backend/cpu_conversions.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace strata::emitters {

_Float16 strata_cpu_float_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = std::isnan(value) ? bits | 0x400000 : bits + 0x7fff + ((bits >> 16) & 1);
  return std::bit_cast<_Float16>(static_cast<uint16_t>(rounded >> 16));
}

_Float16 strata_cpu_double_to_bf16(double value) {
  // Through float, rounded to odd: what was lost stays visible to the second rounding.
  auto narrow = static_cast<float>(value);
  if (!std::isnan(value) && static_cast<double>(narrow) != value) {
    auto bits = std::bit_cast<uint32_t>(narrow);
    if (std::fabs(static_cast<double>(narrow)) > std::fabs(value)) --bits;
    narrow = std::bit_cast<float>(bits | 1);
  }
  return strata_cpu_float_to_bf16(narrow);
}

}  // namespace strata::emitters
