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

/// Whether so few blocks move so many bytes, or do so many operations for them, that one more kernel pays that has all
/// multiprocessors do it.
inline bool are_few_blocks(double bytes, double operations, int64_t blocks, const Target& target) {
  const auto microseconds = [&](double by) {
    const double busy = std::min(by / target.multiprocessors, 1.0);
    // Of operations one an instruction, where the rate counts two of a multiply-add.
    return std::max(memory_microseconds(bytes, by, target), operations / (target.rates.scalar_rate / 2e6 * busy));
  };
  return microseconds(static_cast<double>(blocks)) >
         microseconds(target.multiprocessors) + 1e6 * target.kernel_seconds();
}

}  // namespace strata::emitters
