// What passes over kernel graphs share.
#pragma once

#include <functional>

#include "ir/graph.h"

namespace strata {

/// The same kernel graph with every block graph replaced by what `rewrite` makes of it, which must have the same inputs
/// and outputs.
Result<GraphPtr> rewrite_blocks(const Graph& graph, const std::function<Result<GraphPtr>(const Graph& body)>& rewrite);

}  // namespace strata
