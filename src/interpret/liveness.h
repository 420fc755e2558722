// Which residues of which tensors an execution over Z_p × Z_q must compute: an exponential reads its argument modulo q
// alone and has a result modulo p alone, so most large products of a program need one of the two.
#pragma once

#include <unordered_map>
#include <vector>

#include "ir/graph.h"

namespace strata {

/// FieldArithmetic::kResidueP | kResidueQ by TensorId, for a graph and the graphs inside it.
using ResidueLiveness = std::unordered_map<const Graph*, std::vector<uint8_t>>;

/// `wanted`: the residues of the outputs that are read. `free`: operators that are random functions; null for none.
ResidueLiveness residue_liveness(const Graph& graph, uint8_t wanted, const FreeOperators* free = nullptr);

}  // namespace strata
