// What executing a program costs.
#pragma once

#include "ir/graph.h"

namespace strata {

/// Multiply-adds of products and elements read or written by the rest, of one execution, block graphs included.
double execution_work(const Graph& graph);

}  // namespace strata
