// A step of a plan without times: who can go on, does.
#pragma once

#include "megakernel/plan.h"
#include "megakernel/tgraph/machine.h"

namespace strata::megakernel {

/// Runs all tasks, with loaders as far ahead as the ring lets them: a loader takes tasks in its worker's order and
/// fills stages, first in, first out, of tasks that may not have begun; a task gives its stages back while it computes.
/// A task just in time enters its worker's order after what is being loaded there; of those for which events are
/// active, each goes to the next worker in turn. Error (InvalidInput) that says who waits for what where nobody can go
/// on. The numbers in the plan are right (check.h, 1 and 2).
Result<void> replay(const Plan& plan, const Machine& machine);

}  // namespace strata::megakernel
