// Reductions of one array over some dimensions and over more: the second from the results of the first.
#pragma once

#include <optional>

#include "hlo/hlo.h"

namespace strata::emitters {

/// The module with reductions of its entry from the results of others, where both combine one array by the same
/// operator from the same constant and the others' dimensions are some of theirs: all elements, beside columns. The
/// array is then read once. Of several such reductions the one with the fewest results is taken. Only where the order
/// does not matter, or no more than it does in parts (docs/emitters.md): minima, maxima, and, or, sums and products of
/// integers, and those of floats of 32 bits and more, each from a value that combines with itself to itself.
hlo::Module nest_reductions(const hlo::Module& module);

/// The module with reductions of its entry in two steps, where others of arrays of the same size and over some of their
/// dimensions read some of the same arrays: |z|² of all by rows first, beside the sums of z by rows. Both can be one
/// kernel then, which need not be better. Nothing where there is no such reduction. Only where the order does not
/// matter, as for nest_reductions().
std::optional<hlo::Module> nest_beside_reductions(const hlo::Module& module);

}  // namespace strata::emitters
