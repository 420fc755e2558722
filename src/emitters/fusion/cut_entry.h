// The entry's cut into kernels, tried several ways.
#pragma once

#include "emitters/fusion/recompute.h"
#include "machine/target.h"

namespace strata::emitters {

/// The kernels of a module's entry. Where sums differ by factors or wait for these, and where reductions of all
/// elements can be of rows' results beside other reductions of rows, both ways are tried; large modules have one.
FusedModule cut_entry(const hlo::Module& module, const Target& target, Parameters parameters);

}  // namespace strata::emitters
