// Measures how long it takes from the last signal of an event until a task that waits for it may compute: the rates
// that the mega-kernel's plans take events by (megakernel/tgraph/machine.h, EventLatency).
#pragma once

#include <span>
#include <vector>

#include "runtime/calibrate.h"

namespace strata {

/// Kernels and memory of a calibration.
struct EventBench {
  const GpuDevice& device;
  const CalibrateOptions& options;
  CudaModule module;   ///< of calibration_source()
  CudaPointer memory;  ///< that is streamed
  int64_t vectors;     ///< of 16 bytes there, at least four a thread of all multiprocessors
  bool bulk_copies;    ///< by which it is streamed
};

/// An event's seconds by the number of its triggers.
struct EventTime {
  int64_t triggers;
  double seconds;
};

/// least + per_doubling · log2(triggers), by least squares; of two different numbers of triggers at least.
struct EventLine {
  double least = 0;
  double per_doubling = 0;
};
EventLine fit_events(std::span<const EventTime> times);

/// Adds the rates of events to the run, and what they were fitted to as observations. What was not measured is a note:
/// where the GPU does not keep a block on each multiprocessor at the same time, where a block waited for long, where no
/// line fits, and where repeats differ so much that somebody else must have used the GPU.
void measure_events(const EventBench& bench, CalibrationRun& run);

}  // namespace strata
