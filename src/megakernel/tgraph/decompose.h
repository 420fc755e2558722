// From a program to tasks: each operator of a kernel graph is divided into blocks.
#pragma once

#include <map>
#include <set>

#include "megakernel/tgraph/machine.h"
#include "megakernel/tgraph/operator_graph.h"

namespace strata::megakernel {

struct DecomposeOptions {
  /// Inputs whose rows earlier steps wrote. Inputs that are neither these nor step_inputs are constants.
  std::set<std::string> history;
  /// Inputs that each step changes, which no loader may load ahead of the step (TensorClass::StepInput).
  std::set<std::string> step_inputs;
  /// For predefined operators, by the name of their result: the number of parts of each of its dimensions.
  std::map<std::string, std::vector<int64_t>> parts;
  /// Operators, by the name of their first result, whose time depends on data.
  std::set<std::string> data_dependent;
};

/// The operators of a kernel graph as tasks (Mirage Persistent Kernel, section 4.1, Decompose), in its order. Operators
/// are named by their first result, as are their block functions.
/// - A graph-defined operator has a task for each block of its grid.
/// - Tasks of a predefined operator compute tiles of its result. Of all divisions along at most three dimensions whose
///   number of tasks is nearly a multiple of the workers, it is the one whose tasks load the fewest bytes in all; of
///   equals, the one of fewer tasks. If no division is near a multiple, those nearest to one are.
/// - Views (ir/views.h) are no tasks: who reads them reads the memory they lie in.
/// The cost of a task: bytes of constants and history of its regions, stages for them, scratch memory for its
/// activations and inputs of the step, and seconds for bringing these. Errors: InvalidInput where an option names
/// nothing, an input is said to be two things, or parts do not fit; Unsupported for grids of more than three
/// dimensions.
Result<OperatorGraph> decompose(const Graph& graph, const Machine& machine, const DecomposeOptions& options = {});

}  // namespace strata::megakernel
