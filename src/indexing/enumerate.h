// All points of a domain, one after the other.
#pragma once

#include <functional>

#include "indexing/indexing_map.h"

namespace strata::indexing {

/// The number of points within the ranges of all variables of the map, whether or not they satisfy its constraints;
/// kGreatest if more than that.
int64_t box_size(const IndexingMap& map);

/// Calls `visit` for all points within the ranges of the variables that satisfy the constraints, the last variable
/// fastest, until it returns false.
void for_each_point(const IndexingMap& map, const std::function<bool(const Point&)>& visit);

}  // namespace strata::indexing
