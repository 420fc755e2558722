// What the compiler of plans knows of a machine: workers, what they load, and how long an event takes. The default
// rates are those of one H200; docs/benchmarks-decoding.md (Rates) says which were measured, when and how.
#pragma once

#include <cmath>
#include <cstdint>

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
  int workers = 128;
  int schedulers = 16;                   ///< warps, of the multiprocessors that are no workers
  double bandwidth = 4.69e12;            ///< of device memory, bytes per second
  double worker_bandwidth = 0.1e12;      ///< the most that one worker gets of it
  int64_t ring_bytes = 184320;           ///< of a worker's shared memory, that constants come through in stages
  int64_t ring_stages = 32;              ///< pairs of barriers; half as many stages are in flight at most
  int64_t window_bytes = 49152;          ///< in flight at most; a larger stage is in flight alone
  int64_t scratch_bytes = 36864;         ///< of a worker's shared memory, for its compute team
  double activation_bandwidth = 6.5e12;  ///< of the second-level cache, for what all workers read together; assumed
  EventLatency counter{0.725e-6, 0.125e-6, 2.3};
  EventLatency tagged{0.28e-6, 0.06e-6, 4.9};
  double task_seconds = 3.3e-6;      ///< between two tasks that begin on a worker, however little they compute
  double worker_hand_off = 0.05e-6;  ///< seconds, through shared memory of one worker; assumed
  double dispatch = 0.8e-6;  ///< seconds, from a scheduler that sees an event to a worker with the task; assumed
  /// More activations for one consumer are not handed over in tagged words, which double their bytes. Where that costs
  /// more than a counter and its fence: between 96 and 128 KB (docs/benchmarks-decoding.md).
  int64_t tagged_bytes = 114'688;
};

}  // namespace strata::megakernel
