// Memory that comparing two programs takes: known before anything is executed.
#pragma once

#include "ir/graph.h"

namespace strata {

/// Error (Environment) where this machine has no room for a test of both programs over finite fields.
Result<void> check_field_memory(const Graph& reference, const Graph& candidate);

/// The same of a look at both in float64.
Result<void> check_real_memory(const Graph& reference, const Graph& candidate);

}  // namespace strata
