// Maps read backwards.
#pragma once

#include "indexing/indexing_map.h"

namespace strata::indexing {

/// The map from an element of the tensor that `map` reads, of positions `read`, to all values of the dimensions of
/// `map` for which `map` reads that element for some values of its range and runtime variables. Simplified. What cannot
/// be solved for becomes a range variable with a constraint, so that the answer is always exact.
IndexingMap inverse(const IndexingMap& map, const std::vector<Interval>& read);

}  // namespace strata::indexing
