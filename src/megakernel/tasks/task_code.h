// Block functions of the superoptimizer as tasks of a mega-kernel: a generated function whose constants come packed
// through the worker's ring, called for tensors that are tagged words, and the switch of all functions of an image.
#pragma once

#include <string>
#include <vector>

#include "superopt/codegen/generate.h"

namespace strata {

/// Device text behind the device library and the runtime's core: what tensors are to tasks (strata_task.h); behind
/// that, what attention over a cache is made of beside its block function; and the ends of a decode step.
std::string_view task_library();
std::string_view attention_library();
std::string_view caller_library();
std::string_view sampling_library();

}  // namespace strata

namespace strata::megakernel {

/// A generated function as tasks call it.
struct TaskCode {
  std::string name;
  std::string text;  ///< NAME_load, NAME_pack and NAME (superopt/codegen/block_code.h)
  std::string math;  ///< numeric policy
  int64_t threads = 0;
  int64_t iterations = 0;     ///< of the loop, each of which is a stage
  int64_t stage_bytes = 0;    ///< of the ring
  int64_t page_bytes = 0;     ///< of scratch: tiles of activations,
  int64_t partial_bytes = 0;  ///< and, after these, what groups of warps leave for each other
  int64_t registers = 0;      ///< estimate, of a thread
  Packing packing;

  int64_t scratch_bytes() const { return page_bytes + partial_bytes; }
};

/// That of a graph-defined operator, with a schedule that packs constants. Errors: those of emit_tiles;
/// Unsupported, with the reason, where tasks cannot run such a function: it packs nothing, or moves registers.
Result<TaskCode> task_code(const Graph& graph, const Operation& op, const BlockSchedule& schedule,
                           const std::string& name, const Target& target);

/// The same, laid out so that its scratch memory is at most `scratch_bytes`: of the ways that fit, the one whose groups
/// of warps leave their sums in the fewest turns, then the one with the fewest pieces of activations
/// (BlockSchedule::leaving, piece). Errors: those of task_code; Unsupported where nothing fits.
Result<TaskCode> fitting_task_code(const Graph& graph, const Operation& op, BlockSchedule schedule,
                                   const std::string& name, const Target& target, int64_t scratch_bytes);

/// A function of an image: statements of its load and its compute, in which `d` is the task's descriptor, and `ring` or
/// `side` the core's LoadSide or ComputeSide.
struct TaskBody {
  std::string comment;
  std::string load;  ///< empty where it loads nothing
  std::string compute;
};

/// Statements that call the function. `tensors` are expressions for its tensors, `packed` for its packed constants,
/// `iterations` for how many it has; `ring` is a variable that is a ring for the block function.
struct TaskCall {
  std::vector<std::string> tensors;
  std::string packed;
  std::string iterations;
  std::string ring = "ring";
};
std::string load_call(const TaskCode& code, const TaskCall& call);
std::string compute_call(const TaskCode& code, const TaskCall& call);

/// The functions load_task and compute_task that the runtime's kernel calls: a switch over the number of a task's
/// function, in the order of `bodies`.
std::string task_switch(const std::vector<TaskBody>& bodies);

/// The kernel NAME_pack_kernel that packs an operator's constants, a block for each task: its parameters are the
/// operator's tensors, inputs first, and the packed constants.
std::string pack_kernel(const TaskCode& code, const Operation& op);

}  // namespace strata::megakernel
