// What comes before what in a plan.
#pragma once

#include "megakernel/plan.h"
#include "megakernel/tgraph/precedence.h"

namespace strata::megakernel {

/// By events; those for which `counts` is false order nothing. With `queues`, tasks of one queue come in its order.
Precedence precedence_of(const Plan& plan, bool queues, const std::function<bool(const Event&)>& counts = nullptr);

/// The worker in whose queue each task stands, and its place there; −1 where it stands in none.
struct QueuePlace {
  int worker = -1;
  int place = -1;
};
std::vector<QueuePlace> queue_places(const Plan& plan);

/// The tasks of each operator, by row-major number of their block. The plan's tasks have the operators' coordinates.
std::vector<std::vector<int>> tasks_of_operators(const Plan& plan, const OperatorGraph& operators);

/// The bytes of activations that one task of `to` reads of what tasks of operator `from` write, at most.
int64_t activation_bytes(const OperatorGraph& operators, int from, int to);

}  // namespace strata::megakernel
