// Reductions whose result depends on the order in which elements are combined.
#pragma once

#include <vector>

#include "hlo/hlo.h"

namespace strata::hlo {

/// A warning, with its place, for each reduce, reduce-window, select-and-scatter and scatter whose computation is not
/// associative or not commutative (of scatters: not the same for updates in any order): generated code combines
/// elements in an order of its own. One for each computation, at the first instruction that calls it. A computation
/// that is one operator for each of its results is known by that; others are tried on random values, where roundings
/// are no difference. A scatter that replaces elements is left out: of several updates of one element any may stay.
std::vector<Error> order_warnings(const Module& module);

}  // namespace strata::hlo
