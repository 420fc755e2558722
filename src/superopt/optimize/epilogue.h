// What follows a block graph's sum element by element, computed by its blocks: residuals, biases, activations.
//
// The search gives such an operator a kernel of its own where tensors that the loop does not cut meet what it sums up:
// every path passes one accumulator (ir/validate.h). Here they pass the loop as the maximum of what is the same in each
// iteration. The result is a µGraph of its own and is proved like any other.
#pragma once

#include "ir/graph.h"

namespace strata {

/// The kernel graph with every kernel that only computes elements of one block graph's only result, and of tensors that
/// broadcast to it, joined with that block graph, if nobody else reads the result. Such a kernel is an elementwise
/// operator, or a block graph of them without a loop. The same graph where there is none.
Result<GraphPtr> join_epilogues(const GraphPtr& graph);

}  // namespace strata
