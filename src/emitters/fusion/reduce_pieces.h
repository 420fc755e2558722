// Reductions of arrays that lie one after the other: one of each array.
#pragma once

#include "hlo/hlo.h"
#include "machine/target.h"

namespace strata::emitters {

/// The module with reductions of its entry along a concatenated dimension, of what elementwise operators compute of
/// concatenations that nothing else reads, as one reduction of each piece, and their results combined: Σ concat(a, b)·x
/// is Σ a·x[:n] + Σ b·x[n:]. A norm or a product of all parameters of a model, raveled into one vector, is that. To a
/// kernel a concatenation is a branch for each element and array, after which the next load waits; a piece that was a
/// matrix is one again, and is read beside whatever else goes through that matrix.
///
/// Only where reading all takes longer than a launch for each piece, and where a reduction may be in steps
/// (is_repeatable_reduction).
hlo::Module reduce_pieces(const hlo::Module& module, const Target& target);

}  // namespace strata::emitters
