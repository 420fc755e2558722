// The project's only random generator: counter-based and seeded, so that a run is repeated by its
// seed on any machine and any number of threads.
#pragma once

#include <cstdint>

#include "support/hash.h"

namespace strata {

/// SplitMix64: the n-th value is mix(seed + n·γ). Satisfies UniformRandomBitGenerator.
class Random {
 public:
  using result_type = uint64_t;
  explicit Random(uint64_t seed) : state_(mix(seed)) {}
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~uint64_t{0}; }
  uint64_t operator()() {
    state_ += 0x9e3779b97f4a7c15ULL;
    return mix(state_);
  }
  /// As if it had been called this many times.
  void skip(uint64_t times) { state_ += times * 0x9e3779b97f4a7c15ULL; }
  /// Uniform in [0, bound), bound > 0; by rejection, so without bias.
  uint64_t below(uint64_t bound) {
    const uint64_t limit = max() - max() % bound;
    for (;;) {
      if (uint64_t value = (*this)(); value < limit) return value % bound;
    }
  }
  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>((*this)() >> 11) * 0x1.0p-53; }
  /// Uniform in [low, high).
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

 private:
  uint64_t state_;
};

}  // namespace strata
