// Operators of which emitters (emission.h) make kernels.
#pragma once

#include <vector>

#include "superopt/codegen/generate.h"
#include "superopt/codegen/libraries.h"

namespace strata {

/// Whether an operator moves elements, computes each by itself, or reduces them by a sum or a maximum.
bool is_glue(const Operation& op);

/// Those of a kernel graph, ascending, that neither a library computes by these schedules nor are views.
std::vector<size_t> glue_operations(const Graph& graph, const Schedules& schedules);

/// Whether emitters write an operator as a product of matrices, for which they may call a library.
bool is_emitted_product(const Operation& op);

/// By operation of a kernel graph, whether emitters may write it: no µGraph, call of a library or view; products only
/// where a library may be called.
std::vector<bool> free_operations(const Graph& graph, const LibraryPlan& libraries, const std::vector<bool>& views,
                                  const Passes& passes);

}  // namespace strata
