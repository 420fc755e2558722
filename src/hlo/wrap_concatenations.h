// Concatenations whose pieces go around one array, without conditions.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// The module with a slice of a repeated array in the place of each concatenation of the entry whose pieces are slices
/// of one array, alike in all other dimensions, of which each begins where the one before ended, or at the first
/// element of a range at whose last one the one before ended:
///
///     concatenate(x[n - 1:], x[:n - 1])  →  repeat(x)[n - 1 : 2 n - 1],  element i of which is x[(i + n - 1) mod n]
///
/// jnp.roll, padding that wraps around, and exchanged halves are such concatenations. The repeated array is a broadcast
/// and a reshape of the range; nothing writes it, since its elements are the array's at other indices. To what reads
/// it, a concatenation is a branch for each element, after which the next load waits, and pieces of few elements beside
/// each other let a warp go through all that both are computed of. An index is neither.
Module wrap_concatenations(const Module& module);

}  // namespace strata::hlo
