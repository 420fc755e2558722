// Loops of elements (hlo/indexing/element_loop.h) as parts that are one kernel.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "emitters/fusion/pass.h"

namespace strata::emitters {

/// A part that is such a loop, without the results that stay as they are in all iterations.
struct ElementLoopPart {
  ProgramPart part;
  std::vector<std::pair<ArrayValue, int64_t>> same;  ///< those results, and the leaves of the state that they are
  hlo::InstructionId state = 0;                      ///< the first state, in the module of the part
  bool counted = false;                              ///< how often it runs is known beforehand
};

/// Whether a `while` may be one, whatever it takes.
bool is_element_loop(const hlo::Module& module, const hlo::Instruction& loop);

/// A part that the interpreter would run, where it is a loop of elements, and threads that take an element through all
/// iterations are estimated to take no longer for one than kernels of the body; else why not. Loops until a condition
/// is false are taken to run 16 times.
Result<ElementLoopPart> element_loop_part(const ProgramPart& part, const Target& target);

/// The parts of a module's entry, where kernels that only go on with the last state of such a loop, each element with
/// its own, are part of the loop's. `same`: of the body of a loop, what is the same in all its iterations. A loop that
/// needs nothing else leaves that body, and is joined only with what leaves it as well.
std::vector<ProgramPart> with_readers(const hlo::Module& module, std::vector<ProgramPart> parts, const Target& target,
                                      std::optional<std::set<ArrayValue>> same);

}  // namespace strata::emitters
