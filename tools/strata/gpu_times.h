// Times of a program on the GPU, as `strata run --profile` prints them.
#pragma once

#include "runtime/gpu_program.h"

namespace strata::cli {

/// Runs of which a time is the median.
constexpr int kProfileRuns = 11;

/// The times of all parts and of the whole, and how much memory it takes.
Result<void> print_profile(const GpuProgram& program, const GpuBuffers& buffers);

}  // namespace strata::cli
