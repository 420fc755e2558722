// What a module computes, without names: equal keys are equal modules except for the names in them.
#pragma once

#include <string>
#include <vector>

#include "hlo/hlo.h"

namespace strata::hlo {

/// Bytes that two modules share exactly where they have the same computations, in the same order, of the same
/// instructions (operator, shape with its layout, operands, attributes, called computations, bits of constants). Names
/// of modules, computations and instructions, and places in texts, are no part of it. A key is valid in this process
/// only.
std::string structure_key(const Module& module);

/// The same of an instruction with all that it calls, without its operands.
std::string structure_key(const Module& module, const Instruction& instruction);

/// The same with numbers of its operands: equal where the same is computed of the same.
std::string structure_key(const Module& module, const Instruction& instruction,
                          const std::vector<InstructionId>& operands);

}  // namespace strata::hlo
