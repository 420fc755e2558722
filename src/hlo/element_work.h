// What kernels do for an element: the one table of what operators take. The emitters' prices read it, and passes of HLO
// that decide what is computed again.
#pragma once

#include <set>

#include "hlo/hlo.h"

namespace strata::hlo {

/// Instructions that an element of an operator's result takes, about; none of a fraction is rounded.
double element_operations(const Computation& computation, const Instruction& it);

/// A value, the elementwise operators of which it is computed, and what these read that has as many elements (of
/// large ones not all): what a kernel that reads the value once does or reads for each element.
std::set<InstructionId> values_before(const Computation& computation, InstructionId value);

/// Instructions for all of them, each element once.
double operations_before(const Computation& computation, InstructionId value);

}  // namespace strata::hlo
