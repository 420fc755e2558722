// Sums and products of narrow floats as those of f32.
#pragma once

#include "hlo/hlo.h"

namespace strata::emitters {

/// The module with long sums and products of floats of fewer than 32 bits of its entry (more than 63 terms, from a
/// constant) as those of their terms in f32, rounded once at the end. Kernels accumulate them in f32 anyway, so that
/// nothing is rounded otherwise; but results of parts now are f32, and blocks can share what is summed, or write
/// it beside sums of f32.
hlo::Module widen_sums(const hlo::Module& module);

}  // namespace strata::emitters
