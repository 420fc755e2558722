// Scatters of one window whose place is known, without indices.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether any computation has a scatter that expand_window_scatters rewrites.
bool has_window_scatters(const Module& module);

/// Each scatter with one index vector that is known (`x.at[1:-1].add(y)`) becomes a call of a computation without
/// atomic updates. Where its window has half of the array or more, all elements are computed: then the kernel that
/// makes the updates can have them written. Where it replaces what is there, it is a dynamic-update-slice. Small
/// windows that are combined with what is there stay: a scatter does that in place, and so do those whose place is
/// computed. Layouts must be row-major. Error where the module is not verified.
Result<Module> expand_window_scatters(const Module& module);

}  // namespace strata::hlo
