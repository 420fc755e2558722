// Rates of an H200 by which the fusion pass compares kernels, measured (docs/benchmarks.md).
#pragma once

#include <algorithm>

namespace strata::emitters {

inline constexpr double kMemoryBytesPerMicrosecond = 4.39e6;
/// What one multiprocessor reads at most: a column reduction in 32 blocks reads that, one in 4 blocks 185e3.
inline constexpr double kMemoryBytesPerMicrosecondOfBlock = 100e3;
inline constexpr double kLaunchMicroseconds = 2;

/// Of so many bytes that so many blocks move.
inline double memory_microseconds(double bytes, double blocks) {
  return bytes / std::min(kMemoryBytesPerMicrosecond, blocks * kMemoryBytesPerMicrosecondOfBlock);
}

}  // namespace strata::emitters
