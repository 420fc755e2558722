// What host and device agree on where a step is a graph of kernels, one for each operator. Part of the device code as
// text, after words.h.
#pragma once

#include "megakernel/runtime/cuda/words.h"

namespace strata::megakernel {

/// A block has the warps of compute and the one of which a lane loads; nobody controls.
constexpr int kGraphThreads = kComputeThreads + 32;
/// Blocks of a multiprocessor: those of a kernel load their first stages beside those of the kernel before.
constexpr int kGraphBlocks = 2;

/// What changes from one launch to the next, while the graph stays as it is.
struct GraphState {
  unsigned first_epoch;
  unsigned last_epoch;
};

/// A kernel: all tasks of an operator, dealt to its blocks in turn.
struct GraphLaunch {
  void* arguments[kMostArguments];
  const GraphState* state;
  int grid[3];  ///< of the operator; its product is `tasks`
  int tasks;
  int first_task;  ///< a task of the operator in the plan, for reports
  int function;
  int blocks;
  unsigned flags;          ///< kEndsStep, kStoresForCopies
  int first_record;        ///< of its tasks, among the records of a step
  int step_records;        ///< tasks of a step
  int kept_steps;          ///< whose records there is room for; 0: nothing is recorded
  unsigned ring_bytes;     ///< of shared memory
  unsigned scratch_bytes;  ///< the same
};

/// The step's program as a kernel has it: a ring of its own, and no list of tasks. Its shared memory is graph_layout.
template <class Words>
Program<Words> graph_program(Program<Words> program, const GraphLaunch& launch) {
  program.ring_bytes = launch.ring_bytes;
  program.listed = 0;
  return program;
}

STRATA_DEVICE constexpr SharedLayout graph_layout(const GraphLaunch& launch, unsigned ring_stages) {
  return shared_layout(launch.ring_bytes, ring_stages, 0, launch.scratch_bytes);
}

}  // namespace strata::megakernel
