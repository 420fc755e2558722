// Loops whose bodies find out whether they go on.
#pragma once

#include <functional>

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether a `while` of a module without calls is left as it is.
using LeavesLoop = std::function<bool(const Module&, const Instruction&)>;

/// Whether carry_conditions would change any loop: a `while` that is not counted (counted_loop), and whose condition
/// computes anything.
bool has_computed_conditions(const Module& module, const LeavesLoop& leaves = {});

/// The module with its calls written out (inline_calls), and each such loop with one more leaf in its state, a pred:
/// whether it goes on. The body computes it of the state that it returns, and the computation around the loop that of
/// the state that it begins with. So what the condition computes fuses with what the body does: on a GPU an iteration
/// has a kernel less. Error where the module is not verified.
Result<Module> carry_conditions(const Module& module, const LeavesLoop& leaves = {});

}  // namespace strata::hlo
