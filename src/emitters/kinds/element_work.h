// What kernels do for an element.
#pragma once

#include <set>

#include "hlo/hlo.h"

namespace strata::emitters {

/// Instructions that an element of an operator's result takes, about; none of a fraction is rounded.
double element_operations(const hlo::Computation& computation, const hlo::Instruction& it);

/// A value, the elementwise operators of which it is computed, and what these read that has as many elements (of
/// large ones not all): what a kernel that reads the value once does or reads for each element.
std::set<hlo::InstructionId> values_before(const hlo::Computation& computation, hlo::InstructionId value);

/// Instructions for all of them, each element once.
double operations_before(const hlo::Computation& computation, hlo::InstructionId value);

}  // namespace strata::emitters
