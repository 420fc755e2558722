// Inputs that look like a network's: what programs are executed and timed on where the user gives none.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "ops/tensor.h"
#include "support/random.h"

namespace strata {

/// Standard normal (Box–Muller), matrices scaled by 1/sqrt of their innermost dimension, so that products stay near 1;
/// rounded to the tensor's type, so that a GPU can be given the very same numbers.
Tensor<double> typical_tensor(const TensorType& type, Random& random);

/// One for each argument of the graph, in order.
std::vector<Tensor<double>> typical_inputs(const Graph& graph, uint64_t seed);

}  // namespace strata
