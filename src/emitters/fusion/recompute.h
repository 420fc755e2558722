// What is computed again in the kernels that read it, in place of an array in memory.
#pragma once

#include "emitters/fusion/pass.h"
#include "machine/target.h"

namespace strata::emitters {

/// A module and the parts that its entry is cut into.
struct FusedModule {
  hlo::Module module;
  std::vector<ProgramPart> parts;
  bool changed = false;  ///< the module is not the one that was given: instructions have other numbers
};

/// What the model says that the parts take, one after the other, but for those that the interpreter runs.
double microseconds(const std::vector<ProgramPart>& parts);

/// fuse(), of modules that are not large both ways where pairs save the same (Ties), after which arrays between kernels
/// are looked at: where a kernel could compute what it reads by elementwise operators of other arrays, and reading
/// those moves fewer bytes than writing and reading the array does, the operators are copied for it (so kernels read
/// operands of 16 bits, not what was converted from them, rows' sums, not what was computed of them, and rows of a
/// table, not an array of those that were gathered). Then all is fused anew, and kept where the model says that the
/// whole takes less time. Before and after that, values that kernels write more than once are written once, where that
/// takes less time. Most groups of a module are those of another way to write it: `ratings` has the times of all that
/// were rated.
FusedModule fuse_recomputing(const hlo::Module& module, Ratings& ratings, Parameters parameters = Parameters::Kept);
FusedModule fuse_recomputing(const hlo::Module& module, const Target& target, Parameters parameters = Parameters::Kept);

}  // namespace strata::emitters
