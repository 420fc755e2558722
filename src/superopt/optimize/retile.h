// More iterations of smaller tiles: a block graph whose loop walks the same elements in smaller steps.
//
// The search enumerates few loop lengths. What suits the machine, tiles that fit the registers of a warp and rings of
// several stages in shared memory, is a matter of the schedule; so the loop is cut finer here. The result is a µGraph
// of its own and is proved like any other: an accumulator of sums does not mind, other graphs may.
#pragma once

#include "ir/graph.h"

namespace strata {

/// The kernel graph with the loops of block graphs that multiply matrices cut so fine that an iteration's tiles are at
/// most `extent` elements long in the dimension that the loop cuts. The same graph where nothing is longer; Error where
/// an operator's attributes name sizes of the old tiles.
Result<GraphPtr> retile_loops(const Graph& graph, int64_t extent);

}  // namespace strata
