// The part of a program that computes one tensor.
#pragma once

#include <set>

#include "ir/graph.h"

namespace strata {

/// The tensor and all that it is computed from, in a kernel graph.
std::set<TensorId> ancestors(const Graph& graph, TensorId of);

/// The part of a kernel graph that computes `output`, with all of the graph's inputs, in order.
Result<GraphPtr> part_computing(const Graph& graph, TensorId output);

}  // namespace strata
