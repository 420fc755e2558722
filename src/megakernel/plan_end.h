// The end of a step: what the compiler makes plans by, the check demands, and the runtime refuses plans without.
#pragma once

#include <vector>

#include "megakernel/plan.h"

namespace strata::megakernel {

/// The tasks, by number, that may still run or whose stores may not be visible when the last task of the plan ends the
/// step. A task ends before another one begins if the other waits for its event by a counter or
/// as a task of one worker, or comes after it in a queue, and so on from there. Tagged words do not say so: some warps
/// of a task may still read what the next step overwrites when a reader has found the words of another warp. The plan's
/// numbers are in range.
std::vector<int> running_at_end(const Plan& plan);

}  // namespace strata::megakernel
