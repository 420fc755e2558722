// How many bits the integers need that compute an indexing map.
#pragma once

#include "indexing/indexing_map.h"

namespace strata::indexing {

enum class IndexType { I32, I64 };

/// The narrowest type in which no sub-expression of the map's results, constraints and runtime elements overflows,
/// whatever the order in which sums are added up, with its variables in their ranges. Constraints do not count: their
/// own expressions are computed before they are known to hold. Only those on a single runtime variable do, for they are
/// to be tested in the type of that value. Nothing where even 64 bits may overflow.
std::optional<IndexType> narrowest_index_type(const IndexingMap& map);

}  // namespace strata::indexing
