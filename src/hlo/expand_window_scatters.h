// Scatters of one window, as slices.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether any computation has a scatter that expand_window_scatters rewrites.
bool has_window_scatters(const Module& module);

/// Each scatter with one index vector (`x.at[i].set(y)`, `x.at[1:-1].add(y)`) becomes a call of a computation without
/// atomic updates: the window is taken, combined with the updates and put back (dynamic-update-slice), as it was where
/// it is not wholly inside. Where its place is known and it has half of the array or more, all elements are computed
/// instead: then the kernel that makes the updates can have them written. Layouts must be row-major. Error where the
/// module is not verified.
Result<Module> expand_window_scatters(const Module& module);

}  // namespace strata::hlo
