// Reductions whose results may be combined again.
#pragma once

#include "hlo/hlo.h"

namespace strata::emitters {

/// Whether a reduction of `computation`, of one array by one operator from a constant, may be one of parts and one of
/// their results: the order does not matter, or no more than it does in parts (minima, maxima, and, or, sums and
/// products of integers, and those of floats of 32 bits and more), and the constant combines with itself to itself.
bool is_repeatable_reduction(const hlo::Module& module, const hlo::Computation& computation,
                             const hlo::Instruction& it);

}  // namespace strata::emitters
