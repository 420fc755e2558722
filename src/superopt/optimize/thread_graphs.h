// Thread graphs by fusion (Mirage, OSDI'25, section 4.2): elementwise operators of a block graph that only pass
// values to each other become one operator whose values stay in registers.
#pragma once

#include "ir/graph.h"

namespace strata {

/// The same kernel graph with chains of two or more elementwise operators, in every block graph, replaced by thread
/// graphs. A producer joins its user when all its uses lie in one chain and both run in the same stage of the
/// loop; a value of fewer elements than the chain's result is recomputed for each. `threads` is the block size.
Result<GraphPtr> form_thread_graphs(const Graph& graph, int64_t threads);

}  // namespace strata
