// What executing a program costs.
#pragma once

#include "ir/graph.h"

namespace strata {

/// Multiply-adds of a product, or the elements that one execution of another operation reads or writes.
double operation_work(const Graph& graph, const Operation& op);

/// Multiply-adds of products and elements read or written by the rest, of one execution; all of a block graph is
/// counted once an iteration.
double execution_work(const Graph& graph);

/// Bytes of all tensors of a kernel graph, in float64 or values of another size, which one execution keeps.
double execution_bytes(const Graph& graph, double bytes_per_value = sizeof(double));

/// Error (Environment) where this machine has no room for an execution.
Result<void> check_execution_memory(const Graph& graph);

}  // namespace strata
