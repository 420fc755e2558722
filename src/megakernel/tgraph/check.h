// Whether a plan does what its operator graph asks for, whoever made it.
#pragma once

#include "megakernel/plan.h"
#include "megakernel/tgraph/machine.h"
#include "megakernel/tgraph/operator_graph.h"

namespace strata::megakernel {

/// Checks a plan against its operator graph, which is valid. Errors (InvalidInput) name task, event or operators:
/// 1. Numbers name what there is. Each block of each operator is one task, with the operator's function; empty tasks
///    have neither. Each task ahead of time stands in one queue, once; tasks just in time stand in none.
/// 2. A task waits for kMaxWaits different events at most. Each event has as many triggers as tasks signal it. The
///    tasks [first, end) of an event wait for it, and each task that waits stands in the range of one of its events.
/// 3. Events and the order of queues make no cycle.
/// 4. A task just in time waits for something, by counters. Tasks ahead of time that wait for what comes after one, by
///    events or queues, are marked, and wait by counters.
/// 5. Hand-offs are what HandOff says: of one worker; or in tagged words that every waiting task reads of every
///    triggering one, and by all that an operator writes.
/// 6. Every dependence of the operator graph is an order of the plan, by events and queues. If data or memory are not
///    handed over in tagged words, an order through these alone does not count.
/// 7. All tasks come before the last one, so that the next step may write the memory of this one.
/// 8. Pages of a task are no more than a worker has, and all tasks run in a replay (replay.h).
Result<void> check(const Plan& plan, const OperatorGraph& operators, const Machine& machine);

}  // namespace strata::megakernel
