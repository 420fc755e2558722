// What the profiler recorded of one step, as a page to look at: each worker's tasks over time, the bandwidth of loads
// over time, and how the time divides among block functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "megakernel/plan.h"
#include "megakernel/runtime/trace.h"

namespace strata::megakernel {

/// The last step whose tasks were all recorded.
struct StepTimeline {
  struct Bar {
    int worker = 0;
    Role role = Role::Compute;
    int function = -1;  ///< of the plan; −1: an empty task
    double begin = 0;   ///< µs since the step's first record
    double length = 0;  ///< µs
  };
  struct Share {
    std::string function;
    int tasks = 0;
    double mean = 0;   ///< µs of a task's compute
    double share = 0;  ///< of all workers' time
    double wait = 0;   ///< µs from the end of a worker's previous task to that of the last one that a task waits for
  };
  unsigned epoch = 0;
  double length = 0;  ///< µs from the first record's begin to the last one's end
  std::vector<Bar> bars;
  std::vector<Share> shares;  ///< by block function, the largest first
  double idle = 0;            ///< share of all workers' time in which no task is computed
  /// Share of all workers' time that dependences take: from the end of a worker's task to the end of the last task that
  /// its next one waits for, whether it waits before it begins or within, at tagged words. Loads may go on.
  double dependences = 0;
  std::vector<double> bandwidth;  ///< GB/s of loads, in equal parts of the step
  double bytes = 0;               ///< that loads bring, at most (where a length is known at run time alone)
};

/// Errors (InvalidInput): no step was recorded as a whole.
Result<StepTimeline> step_timeline(const Plan& plan, std::span<const TracedTask> tasks);

/// A page of HTML that needs nothing else.
std::string timeline_html(const Plan& plan, const StepTimeline& timeline);

}  // namespace strata::megakernel
