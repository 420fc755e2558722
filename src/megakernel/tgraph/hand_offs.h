// What the tasks of an event hand over, for the choice of hand-offs and for the check of it.
#pragma once

#include <map>

#include "megakernel/tgraph/linearise.h"
#include "megakernel/tgraph/plan_precedence.h"

namespace strata::megakernel {

/// The tasks of a plan's events, by operators' blocks.
struct EventTasks {
  std::map<int, GridSet> in, out;  ///< by operator
  bool has_empty = false;          ///< tasks that do nothing trigger it or wait for it
  int64_t in_count = 0;
};
std::vector<EventTasks> tasks_of_events(const Plan& plan, const OperatorGraph& operators);

/// Whether every task that waits for the event reads something of every task that triggers it: then tagged words of all
/// that it reads say as much as the event.
bool reads_of_all(const EventTasks& event, const std::vector<Dependence>& dependences);

/// For each task, whether what it writes is read by tasks of its own worker alone, and no result or history of the
/// step.
std::vector<bool> stays_with_worker(const Plan& plan, const OperatorGraph& operators,
                                    const std::vector<Dependence>& dependences);

/// Whether all tasks that trigger an event or wait for it stand in the queue of one worker.
std::vector<bool> of_one_worker(const Plan& plan);

/// The first pair of operators (by number of the dependence) some of whose tasks are ordered only through tagged words
/// that carry other data; nothing where there is none. What is written in tagged words itself needs no order.
Result<std::optional<size_t>> unseen_dependence(const Plan& plan, const OperatorGraph& operators,
                                                const std::vector<Dependence>& dependences);

}  // namespace strata::megakernel
