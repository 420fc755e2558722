// A plan's step as a chain of kernels, one for each operator: the other form of what the mega-kernel runs.
#pragma once

#include <span>

#include "megakernel/plan.h"
#include "megakernel/runtime/cuda/graph_words.h"
#include "megakernel/runtime/image.h"

namespace strata::megakernel {

/// The operators in the plan's order, each with all of its tasks, dealt to at most `plan.workers` blocks. `operators`:
/// arguments of each. A block's ring is what two blocks leave each other of a multiprocessor. Events, queues and modes
/// of tasks have no part in it: a kernel waits for the kernels before. State pointers are null.
///
/// Errors (InvalidInput): numbers out of range; operators that are not as many as the plan's. (Unsupported), with the
/// operator: tasks that are no grid, or of several functions; one that waits for a task of its own or of a later
/// operator; a step that does not end with an operator of one task; a stage or scratch memory that do not fit.
Result<std::vector<GraphLaunch>> graph_launches(const Plan& plan, std::span<const OperatorRecord> operators,
                                                const WorkerShape& shape);

}  // namespace strata::megakernel
