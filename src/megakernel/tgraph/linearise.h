// From a task graph to a plan: tasks in a linear order, labels, and how events hand data over. What a plan still lacks
// then are queues: schedule.h.
#pragma once

#include "megakernel/plan.h"
#include "megakernel/tgraph/machine.h"
#include "megakernel/tgraph/task_graph.h"

namespace strata::megakernel {

/// Algorithm 1 of Mirage Persistent Kernel: tasks in an order in which they may run, those that an event starts next to
/// each other, so that the event names them by first and end. A task that waits for several events stands with those of
/// the one that becomes active last in that order. Tasks that wait for nothing come first. The plan has no workers, no
/// queues, all tasks ahead of time, all events as counters. Errors: InvalidInput where a task triggers more than one
/// event or waits for more than kMaxWaits (normalise the graph before), or where there is a cycle; Unsupported where
/// there are more than kMostTasks tasks.
Result<Plan> linearise(const TaskGraph& graph, const OperatorGraph& operators);

/// The block function of an operator's tasks, with what they cost. It stores for copies where it writes history.
TaskFunction function_of(const OperatorGraph& operators, const Operator& op);

/// Labels by operator (section 5.2): just in time are operators whose time depends on data and all that follows them up
/// to the next global barrier, that is, up to operators each of whose tasks comes after all tasks of those before it
/// that are just in time. An empty task is labelled like an operator of its own. Tasks that wait for nothing are ahead
/// of time, whatever they do, for no event would start them. The plan has no queues yet. Error: InvalidInput (a cycle).
Result<Plan> label(const Plan& plan, const OperatorGraph& operators, const Machine& machine);

/// Marks tasks ahead of time that wait for what comes after a task just in time, by events or in the queue of a worker
/// (Task::after_just_in_time): their loads must not fill the ring while they wait for what needs it. A task that only
/// stands after such a one in a queue is not marked, and its loads run ahead. docs/megakernel-runtime.md says why both
/// are safe.
Result<Plan> mark_after_just_in_time(const Plan& plan);

/// How each event hands data over, for a plan with queues. Worker: all that trigger it and wait for it are tasks of one
/// worker, in that order, and nobody else reads what they write. Tagged: every task that waits for it reads what every
/// task that triggers it wrote, at most machine.tagged_bytes in all, and none is empty; and data that come by counters
/// never depend on an order that only tagged words give. Counter otherwise, and wherever a scheduler waits.
Result<Plan> choose_hand_offs(const Plan& plan, const OperatorGraph& operators, const Machine& machine);

}  // namespace strata::megakernel
