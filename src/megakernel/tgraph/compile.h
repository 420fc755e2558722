// The compiler of plans, from an operator graph to a plan that is checked.
#pragma once

#include <functional>
#include <optional>

#include "megakernel/plan_file.h"
#include "megakernel/tgraph/passes.h"
#include "megakernel/tgraph/schedule.h"

namespace strata::megakernel {

/// What came out of each pass, for reports and tests.
struct Stages {
  TaskGraph dependences;  ///< an event for each set of producers, and the end of the step
  TaskGraph dropped;
  TaskGraph fused;
  Normalised normalised;
};

struct Compiled {
  Stages stages;
  Plan plan;
  Estimate estimate;                    ///< of the plan, with its hand-offs
  Policy policy = Policy::LongestPath;  ///< that its queues were made by
};

/// What each pass made of the tasks and events, a line for each: their numbers, and what a plan's tasks, queues and
/// hand-offs are.
std::string passes_text(const Compiled& compiled);

struct CompileOptions {
  int max_waits = 0;             ///< of a task; 0: 1 or kMaxWaits, by the plan's estimate
  std::optional<Policy> policy;  ///< nothing: by the plan's estimate
  /// Tagged words and shared memory where they may be; else counters everywhere.
  bool choose_hand_offs = true;
  bool events_of_tasks = true;  ///< else one event where an operator needs another (one_event_a_pair)
};

/// The plan for one batch size. Errors: those of validate and of the passes; that the plan does not pass check() would
/// be ours, and is one too.
Result<Compiled> compile(const OperatorGraph& operators, const Machine& machine, const CompileOptions& options = {});

/// Plans for batches of 1, 2, 4, … up to the first that holds `most_sequences`, each as `plan_of` makes it for that
/// batch (Mirage Persistent Kernel, section 5). Errors: those of plan_of, with the batch; InvalidInput where
/// most_sequences is less than 1.
Result<PlanFile> compile_batches(const std::string& name, int64_t most_sequences,
                                 const std::function<Result<Plan>(int64_t batch)>& plan_of);

}  // namespace strata::megakernel
