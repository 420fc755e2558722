// Which worker runs which task, and in which order.
#pragma once

#include "megakernel/tgraph/simulate.h"

namespace strata::megakernel {

enum class Policy : uint8_t {
  LongestPath,  ///< a list schedule: tasks by the longest path that is left after them, each to where it ends first
  RoundRobin,   ///< the baseline: tasks in linear order, to one worker after the other
};

struct Scheduled {
  Plan plan;
  Estimate estimate;
};

/// Queues for the plan's tasks ahead of time on machine.workers workers; marks tasks after tasks just in time, and says
/// how long a step takes. Queues follow an order of execution of the whole plan, so that no worker waits for what
/// stands after its own task. Errors (InvalidInput): a cycle, no workers.
Result<Scheduled> schedule(const Plan& plan, const OperatorGraph& operators, const Machine& machine,
                           Policy policy = Policy::LongestPath);

}  // namespace strata::megakernel
