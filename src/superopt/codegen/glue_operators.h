// Operators of which emitters (emission.h) make kernels.
#pragma once

#include <vector>

#include "superopt/codegen/generate.h"

namespace strata {

/// Whether an operator moves elements, or computes each by itself.
bool is_glue(const Operation& op);

/// Those of a kernel graph, ascending, that neither a library computes by these schedules nor are views.
std::vector<size_t> glue_operations(const Graph& graph, const Schedules& schedules);

}  // namespace strata
