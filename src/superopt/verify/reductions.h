// Where programs combine several entries of a tensor: without that an output entry is one expression at all sizes.
#pragma once

#include <optional>
#include <utility>

#include "ir/graph.h"

namespace strata {

/// Whether an entry of the operation's result combines several entries of a tensor: a sum, a product, a maximum along a
/// dimension. Whatever has a graph of its own may.
bool reduces_here(const Graph& graph, const Operation& op);

/// Whether some operation of a graph, or of one in it, does.
bool reduces(const Graph& graph);

/// Two programs at the smallest common shapes, which are equivalent where these are and differ where these do: there
/// are some where neither reduces anything, as an output entry is then one expression of single entries of the inputs,
/// the same at all sizes. Dimensions that views regroup keep their sizes.
std::optional<std::pair<GraphPtr, GraphPtr>> alike_at_small_shapes(const Graph& reference, const Graph& candidate);

}  // namespace strata
