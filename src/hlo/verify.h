// Checks of modules, and the shape rules of all operators.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Checks the shape, operands, attributes and called computations of every instruction against its operator's rules.
/// The error carries the instruction's place.
Result<void> verify(const Module& module);
/// The same for one instruction, whose operands and called computations are already verified.
Result<void> verify_instruction(const Module& module, const Computation& computation, const Instruction& instruction);

}  // namespace strata::hlo
