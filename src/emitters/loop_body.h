// Loops' bodies as programs of their own.
#pragma once

#include <optional>
#include <vector>

#include "emitters/fusion/pass.h"
#include "emitters/program.h"

namespace strata::emitters {

/// The loop that a part is: a while, of whose leaves the part's root takes some.
std::optional<hlo::InstructionId> loop_of(const ProgramPart& part);

/// The body of that loop, which leaves as it is what is known: counters, and of a loop that runs once at most what it
/// is asked; and what nothing needs. Sets `once`, and drops counters that stay computed.
hlo::Module body_of(const ProgramPart& part, const hlo::Instruction& loop, LoopStep& step);

/// By leaf of the state: whether the loop needs no first value of it, which is no parameter of the part: its
/// iterations, which are counted, write all of it and read nothing (hlo::LoopRows). What a scan stacks is that.
std::vector<bool> overwritten_leaves(const ProgramPart& part, hlo::InstructionId loop, const LoopStep& step);

/// Whether steps that give the same in each iteration are worth being done before the loop: it may run twice.
bool repeats(const LoopStep& loop);

/// Takes out of a loop's body the steps that give the same in each iteration (`invariant`, by step). What the others
/// read of them becomes leaves of the state that stay as they are. The steps, in their order, are of the program around
/// the loop, which gets their buffers; temporaries are left to the caller. A step stays where what it makes is a result
/// of the body, or another step writes over it, so that it would have to be copied in each iteration instead; and where
/// it shares kernels with one that stays: the loop may become one kernel, which takes those of its steps.
std::vector<ProgramStep> take_invariant_steps(LoopStep& loop, EmittedProgram& body, const std::vector<bool>& invariant,
                                              EmittedProgram& around);

}  // namespace strata::emitters
