// How long a step of a plan takes: workers that load, wait and compute, device memory shared by those that load, and
// events that take time.
#pragma once

#include "megakernel/plan.h"
#include "megakernel/tgraph/machine.h"
#include "megakernel/tgraph/operator_graph.h"

namespace strata::megakernel {

/// Seconds of one step. What a worker does in it is the sum of four parts, which are given as means over all workers.
struct Estimate {
  double seconds = 0;
  double computing = 0;           ///< tasks that have what they need
  double waiting_for_memory = 0;  ///< tasks whose constants come too slowly
  double waiting_for_events = 0;  ///< before a task's events are active
  double idle = 0;                ///< after the worker's last task
  double floor = 0;               ///< all constants at the whole bandwidth, for comparison
};

/// Simulates one step of a plan that has queues (megakernel-design, section 4):
/// - A worker loads the constants of its tasks in their order and computes the tasks in their order. Loads run ahead of
///   the task that computes until the ring is full of constants of tasks that have not begun.
/// - Those that load share device memory's bandwidth evenly, none above Rates::worker_bandwidth.
/// - A task ends TaskCost::seconds after its begin, or the time of one slot after its last load, whichever is later.
/// - An event is active some time after its last trigger (EventLatency), by its hand-off and the memory's load then.
/// - Tasks just in time go to the worker with the least to do, Rates::dispatch after their events are active, and run
///   before those ahead of time. Tasks that wait for these (Task::after_just_in_time) load nothing before their events
///   are active.
/// Error (InvalidInput) where tasks never run.
Result<Estimate> simulate(const Plan& plan, const OperatorGraph& operators, const Machine& machine);

}  // namespace strata::megakernel
