// A group of a module's instructions as a module of its own.
#pragma once

#include <vector>

#include "emitters/fusion/group.h"
#include "emitters/fusion/pass.h"

namespace strata::emitters {

/// Whether the operator, its operands, its shape, and its dimensions or what it slices or pads are all that there is of
/// an instruction. Where all of these are the same, a part has it once.
bool has_plain_attributes(const hlo::Instruction& it);

/// The part of the entry that computes `outputs` by the instructions of a group. What is `everywhere` (constants, and
/// what only names values) is copied into it, all else that it reads becomes a parameter. Without an estimated time.
ProgramPart build_part(const hlo::Module& module, const std::vector<bool>& everywhere, const Group& group,
                       const std::vector<ArrayValue>& outputs);

/// A part without the arrays that its root updates: of each dynamic-update-slice only the update.
hlo::Module only_updates(const hlo::Module& part);

}  // namespace strata::emitters
