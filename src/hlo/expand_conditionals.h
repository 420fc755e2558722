// Conditionals in terms of operators that have kernels.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether expand_conditionals would replace any: one whose operands and result are arrays, or tuples of arrays.
bool has_conditionals(const Module& module);

/// Each of them as a call of a computation that takes its operands.
///
/// Where all branches are cheap (a few elementwise operators and movements of few elements) both are computed, and
/// selects take the elements of one. Else each branch is a while loop that runs once or not at all: its state is
/// whether it still has to run, the branch's operand, and the result. A branch that returns what it is given is the
/// state that the others begin with. So a branch that is not taken costs the reading of a flag.
/// Error where the module is not verified.
Result<Module> expand_conditionals(const Module& module);

}  // namespace strata::hlo
