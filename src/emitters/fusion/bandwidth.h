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

}  // namespace strata::emitters
