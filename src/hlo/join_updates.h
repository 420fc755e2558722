// Arrays that are written part by part, as concatenations of the parts.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// The module with a concatenation in the place of each chain of at least two dynamic-update-slices of the entry at
/// constant places, all along one dimension, which begins with one number everywhere. PyTorch prints a loop that fills
/// an array (`out = zeros(n, steps)`, then `out[:, i] = …`) so:
///
///     update(update(broadcast(0), a, 0), c, 2)  →  concatenate(a, broadcast(0), c)
///
/// Nothing but the next update may read what lies between. As updates, each would be a step of its own, after the one
/// that it follows, and would be kept apart from what is computed around it.
Module join_updates(const Module& module);

}  // namespace strata::hlo
