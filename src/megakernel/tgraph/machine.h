// What the compiler of plans knows of a machine: how workers are divided and what they hold, and the rates of the
// target (machine/rates.def), of which events take three each.
#pragma once

#include <cmath>
#include <cstdint>

#include "machine/rates.h"

namespace strata::megakernel {

/// How long it takes from the last signal of an event until a task that waits for it may compute.
struct EventLatency {
  double least = 0;           ///< seconds, of an event that one task triggers
  double per_doubling = 0;    ///< seconds more, where twice as many tasks trigger it
  double at_full_memory = 0;  ///< so many times more beside a saturating stream; with the square of its share

  /// `memory_share`: of device memory's bandwidth that is in use, from 0 to 1.
  double seconds(int64_t triggers, double memory_share) const {
    const double doublings = std::log2(static_cast<double>(triggers < 1 ? 1 : triggers));
    return (least + per_doubling * doublings) * (1 + at_full_memory * memory_share * memory_share);
  }
};

struct Machine {
  int workers = 128;              ///< an H200's, as ring and rates are, until a target's are taken (plan_step)
  int schedulers = 16;            ///< warps, of the multiprocessors that are no workers
  int64_t ring_bytes = 184320;    ///< of a worker's shared memory, that constants come through in stages
  int64_t ring_stages = 32;       ///< pairs of barriers; half as many stages are in flight at most
  int64_t window_bytes = 49152;   ///< in flight at most; a larger stage is in flight alone
  int64_t scratch_bytes = 36864;  ///< of a worker's shared memory, for its compute team
  Rates rates{};
  /// More activations for one consumer are not handed over in tagged words, which double their bytes. Where that costs
  /// more than a counter and its fence: between 96 and 128 KB (docs/benchmarks-decoding.md).
  int64_t tagged_bytes = 114'688;

  EventLatency counter() const { return {rates.counter_event, rates.counter_doubling, rates.counter_at_full_memory}; }
  EventLatency tagged() const { return {rates.tagged_event, rates.tagged_doubling, rates.tagged_at_full_memory}; }
};

}  // namespace strata::megakernel
