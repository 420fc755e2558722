// What comes before what in a plan.
#pragma once

#include "megakernel/plan.h"
#include "megakernel/tgraph/precedence.h"

namespace strata::megakernel {

/// By events; those for which `counts` is false order nothing. With `queues`, tasks of one queue come in its order.
Precedence precedence_of(const Plan& plan, bool queues, const std::function<bool(const Event&)>& counts = nullptr);

/// Of each task: whether one of its events may need a task just in time to become active. A task is late if it is just
/// in time, waits for a late one, or stands after a late one in a queue; those that wait for a late one are what is
/// asked for. `precedence` has the queues' order, and `order` is precedence.order().
std::vector<bool> waits_for_late(const Plan& plan, const Precedence& precedence, const std::vector<int>& order);

/// The tasks of each operator, by row-major number of their block. The plan's tasks have the operators' coordinates.
std::vector<std::vector<int>> tasks_of_operators(const Plan& plan, const OperatorGraph& operators);

/// The bytes of activations that one task of `to` reads of what tasks of operator `from` write, at most.
int64_t activation_bytes(const OperatorGraph& operators, int from, int to);

}  // namespace strata::megakernel
