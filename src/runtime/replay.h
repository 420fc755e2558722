// Times of work on a GPU, from replays of a CUDA graph: without what launching from the host costs.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "runtime/gpu_program.h"

namespace strata {

/// Microseconds of one run of what `launch` puts on the device's stream, which is as often on it as `sets` asks for:
/// the median over 20 replays of a graph that holds at least 20 runs, each of the sets in turn. Fewer runs and replays
/// where all of them would take seconds. Nothing that `launch` does may wait.
Result<double> replayed_microseconds(const GpuDevice& device, int64_t sets,
                                     const std::function<Result<void>(int64_t set)>& launch);

/// Seconds of one run in each of `repeats` such measurements, at least one. Error (Environment) naming `what` where it
/// took no time.
Result<std::vector<double>> repeated_seconds(const GpuDevice& device, std::string_view what, int repeats, int64_t sets,
                                             const std::function<Result<void>(int64_t set)>& launch);

}  // namespace strata
