// A guarded map as an unguarded one and a rest, so that loops need no tests inside.
#pragma once

#include "indexing/indexing_map.h"

namespace strata::indexing {

/// Maps with the variables and the results of one map, whose domains cover its domain without overlap.
struct InteriorSplit {
  IndexingMap interior;            ///< without constraints; known empty where there is nothing that needs none
  std::vector<IndexingMap> edges;  ///< none of them empty; with what constraints are left
};

/// Narrows the ranges of dimension and range variables until the ranges imply the constraints: always by cutting off
/// one end of the range of the variable that leaves the largest share, an edge for each cut. With (block, thread) maps
/// whose last blocks are partly outside this cuts off those blocks. The number of edges is at most twice that of the
/// constraints. Runtime variables are not narrowed: constraints that need it leave the interior empty.
InteriorSplit split_interior(const IndexingMap& map);

}  // namespace strata::indexing
