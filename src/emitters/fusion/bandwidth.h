// How fast a kernel's blocks move its bytes.
#pragma once

#include <algorithm>

#include "machine/target.h"

namespace strata::emitters {

/// Of so many bytes of device memory that so many blocks read and write.
inline double memory_microseconds(double bytes, double blocks, const Target& target) {
  const Rates& rates = target.rates;
  return bytes / std::min(rates.memory_bandwidth / 1e6, blocks * (rates.multiprocessor_bandwidth / 1e6));
}

/// Whether so few blocks move so many bytes that one more kernel pays that has them moved by all multiprocessors.
inline bool are_few_blocks(double bytes, int64_t blocks, const Target& target) {
  return memory_microseconds(bytes, static_cast<double>(blocks), target) >
         memory_microseconds(bytes, target.multiprocessors, target) + 1e6 * target.kernel_seconds();
}

}  // namespace strata::emitters
