// What executing a program costs.
#pragma once

#include "ir/graph.h"

namespace strata {

/// Multiply-adds of products and elements read or written by the rest, of one execution; all of a block graph is
/// counted once an iteration.
double execution_work(const Graph& graph);

/// Bytes of all tensors of a kernel graph in float64, which one execution keeps.
double execution_bytes(const Graph& graph);

/// Error (Environment) where this machine has no room for an execution.
Result<void> check_execution_memory(const Graph& graph);

}  // namespace strata
