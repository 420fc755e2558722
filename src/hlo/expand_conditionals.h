// Conditionals in terms of operators that have kernels.
#pragma once

#include "hlo/hlo.h"
#include "hlo/input_output_alias.h"

namespace strata::hlo {

/// Whether expand_conditionals would replace any: one whose operands and result are arrays, or tuples of arrays.
bool has_conditionals(const Module& module);

/// Each of them as a call of a computation that takes its operands.
///
/// All cheap branches (cheap_branches) are computed, and selects take the elements of one. Each other branch is a while
/// loop that runs once or not at all: its state is whether it still has to run, the branch's operand, and the result.
/// Where only branches that return what they are given are cheap, one of these is the state that the others begin with.
/// So a branch that is not taken costs the reading of a flag. `given`: the parameters that the caller gives away. Error
/// where the module is not verified.
Result<Module> expand_conditionals(const Module& module, const InputOutputAliases& given = {});

}  // namespace strata::hlo
