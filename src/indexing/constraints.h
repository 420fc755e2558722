// Constraints of an indexing map in their simplest form; simplify.h is the way in.
#pragma once

#include "indexing/indexing_map.h"

namespace strata::indexing {

/// One round over all constraints: expressions are simplified (by the ranges of variables alone, for a constraint must
/// not prove itself), made primitive, merged and sorted; what they imply for single variables narrows ranges; what the
/// ranges imply is dropped. Sets known_empty where the domain is empty. The domain stays the same.
void simplify_constraints(IndexingMap& map);

}  // namespace strata::indexing
