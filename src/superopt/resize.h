// A result at other sizes than it was found for (docs/sizes.md).
#pragma once

#include <vector>

#include "ir/graph.h"
#include "machine/target.h"

namespace strata {

/// The graph `found`, which computes `from`, made for `to`: the same program at other sizes, with the same names. Grids
/// and loops are chosen anew, the cheapest by the cost model first; a few. That they compute `to` is for the caller to
/// prove. Error (Unsupported) with the reason where there is none.
Result<std::vector<GraphPtr>> resized(const Graph& found, const Graph& from, const Graph& to, const Target& target);

}  // namespace strata
