// Where programs are defined. A quotient by a rational function, or by one in the roots and exponentials of a program,
// is undefined on a set without volume; one by something that a maximum or a comparison selects may be so on a region.
#pragma once

#include "ir/graph.h"

namespace strata {

/// Whether a graph divides by something that depends on a maximum or on a free operator (lax.h; none where null) and is
/// not positive for all inputs.
bool divides_by_selected(const Graph& graph, const FreeOperators* free);

}  // namespace strata
