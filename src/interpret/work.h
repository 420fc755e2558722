// What executing a program costs.
#pragma once

#include "ir/graph.h"

namespace strata {

/// Multiply-adds of products and elements read or written by the rest, of one execution; all of a block graph is
/// counted once an iteration.
double execution_work(const Graph& graph);

}  // namespace strata
