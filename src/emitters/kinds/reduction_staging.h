// Rows that are too long for registers and are gone through several times stay in shared memory after the first time.
#pragma once

#include <memory>

#include "emitters/kinds/reduction_shape.h"

namespace strata::emitters {

/// A module in which all uses of some parameters of a computation are of copies of them: an emitter takes these copies
/// as heroes, whose values it keeps.
struct StagedModule {
  hlo::ModulePtr module;
  std::vector<hlo::InstructionId> copies;  ///< one for each of the parameters
};
StagedModule with_copies(const hlo::Module& module, hlo::ComputationId computation,
                         const std::vector<hlo::InstructionId>& parameters);

/// The parameters that lie as what is reduced does.
std::vector<hlo::InstructionId> staged_parameters(const hlo::Computation& computation, const ReductionHeroes& heroes);

}  // namespace strata::emitters
