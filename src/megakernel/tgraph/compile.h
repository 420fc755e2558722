// The compiler of plans, from an operator graph to a plan that is checked.
#pragma once

#include <optional>

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
  Estimate estimate;  ///< of the plan, with its hand-offs
};

struct CompileOptions {
  int max_waits = 0;             ///< of a task; 0: 1 or kMaxWaits, by the plan's estimate
  std::optional<Policy> policy;  ///< nothing: by the plan's estimate
  /// Tagged words and shared memory where they may be; else counters everywhere.
  bool choose_hand_offs = true;
};

/// The plan for one batch size. Errors: those of validate and of the passes; that the plan does not pass check() would
/// be ours, and is one too.
Result<Compiled> compile(const OperatorGraph& operators, const Machine& machine, const CompileOptions& options = {});

}  // namespace strata::megakernel
