// Conditionals in terms of operators that have kernels.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether expand_conditionals would replace any: one whose operands and result are arrays, or tuples of arrays.
bool has_conditionals(const Module& module);

/// Each of them as a call of a computation that takes its operands.
///
/// A branch is cheap where computing it takes less time than deciding on the device whether it is to run (a few µs): a
/// few elementwise operators, movements and reductions of few elements. All cheap branches are computed, and selects
/// take the elements of one. Each other branch is a while loop that runs once or not at all: its state is whether it
/// still has to run, the branch's operand, and the result. Where only branches that return what they are given are
/// cheap, one of these is the state that the others begin with. So a branch that is not taken costs the reading of a
/// flag.
/// Error where the module is not verified.
Result<Module> expand_conditionals(const Module& module);

}  // namespace strata::hlo
