// What the profiler recorded, as a trace that Chrome and Perfetto show.
#pragma once

#include <span>
#include <string>

#include "megakernel/plan.h"
#include "megakernel/runtime/core/program.h"

namespace strata::megakernel {

struct TracedTask {
  int worker = 0;
  Role role = Role::Compute;
  ProfileRecord record{};
  int multiprocessor = -1;  ///< of a graph's block, which any may run; −1: a worker has its own
};

/// That a load of the block function brings, at most (where a length is known at run time alone). An empty task loads
/// nothing.
int64_t loaded_bytes(const Plan& plan, int function);

/// Trace Event Format (JSON): a process for each worker, a thread for each role, a complete event ("X") for each task,
/// with microseconds from the first one's begin. Loads say their bytes, where there are any.
std::string chrome_trace(const Plan& plan, std::span<const TracedTask> tasks);

}  // namespace strata::megakernel
