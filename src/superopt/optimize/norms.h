// Norms computed by the blocks of the products that they come before.
//
// A row's factor, such as 1/√(mean of squares), needs the whole row, so that the search gives it a kernel of its own
// where products, norm and activation together are more operators than it takes for one block graph. But a factor of
// rows commutes with a product and with sums: blocks whose loops go over the row anyway sum it up beside the product,
// and multiply what they have added up. The result is a µGraph of its own and is proved like any other.
#pragma once

#include "ir/graph.h"

namespace strata {

/// The kernel graph without the block graphs that reduce the rows of one tensor to a factor each, where every kernel
/// that reads the factors is a block graph whose loop goes over the same rows, and in which a factor is nothing but a
/// factor of what the loop adds up: of the left side of products. Those compute the factors themselves. The same graph
/// where there is none.
Result<GraphPtr> join_norms(const GraphPtr& graph);

}  // namespace strata
