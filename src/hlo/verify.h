// Checks of modules, and the shape rules of all operators.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Checks the shape, operands, attributes and called computations of every instruction against its operator's rules.
/// The error carries the instruction's place.
Result<void> verify(const Module& module);
/// The same for one instruction, whose operands and called computations are already verified.
Result<void> verify_instruction(const Module& module, const Computation& computation, const Instruction& instruction);

/// An error of an operator's rule with the instruction's name and place, and what to do where it does not say so.
Error of_instruction(const Error& error, const Instruction& instruction);

/// The shape of an instruction's result by its operator's rule, with what the rule leaves open (the type of a convert,
/// the sizes of a reshape, …) from instruction.shape.
Result<Shape> infer_shape(const Module& module, const Computation& computation, const Instruction& instruction);

}  // namespace strata::hlo
