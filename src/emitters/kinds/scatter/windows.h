// Scatters with one window for each index of the batch, as one pass over the output: an element's place says which
// window may reach it, and the window's start says whether it does. docs/emitters.md says when.
#pragma once

#include "emitters/kinds/plan.h"

namespace strata::emitters {

/// The plan where no caller can spare the copy that an update in place begins with, and this takes less time; and the
/// same at any cost. Unsupported where an element may have updates of several windows.
Result<Plan> plan_scatter_windows(const Fusion& fusion);
Result<Plan> plan_scatter_windows_at_any_cost(const Fusion& fusion);

}  // namespace strata::emitters
