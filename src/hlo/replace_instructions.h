// Instructions written out by others.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hlo/hlo.h"
#include "support/error.h"

namespace strata::hlo {

/// What an instruction becomes: a call of the entry of a module, with these operands.
struct Replacement {
  std::string text;  ///< of the module
  std::vector<InstructionId> operands;
  /// Computations of the text, by name, that stand for computations of the module itself: of the same parameters and
  /// result, whatever they compute.
  std::map<std::string, ComputationId> stand_ins{};
};

/// The replacement of an instruction of the module, or nothing where it stays.
using Replace = std::function<std::optional<Replacement>(const Computation&, const Instruction&)>;

/// The module with each instruction that has a replacement as a call of it. Errors: those of parsing replacements.
Result<Module> replace_instructions(const Module& module, const Replace& replace);

}  // namespace strata::hlo
