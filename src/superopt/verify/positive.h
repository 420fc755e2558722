// Which tensors of a program are positive for all inputs, seen from its operators alone: sums of exponentials, of
// squares and the like. Quotients and roots of these are defined wherever their operands are.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace strata {

enum class Sign : uint8_t { Unknown, NonNegative, Positive };

/// By TensorId, from the signs of the graph's inputs; where the tensor is defined at all.
std::vector<Sign> signs_of(const Graph& graph, const std::vector<Sign>& of_inputs);

}  // namespace strata
