// The code of a reduction's kernel.
#pragma once

#include "emitters/kinds/combiners.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/reduction_outputs.h"
#include "emitters/kinds/tiled.h"

namespace strata::emitters {

/// What its planner decided.
struct ReductionPlan {
  ReductionHeroes heroes;
  ReductionOutputs outputs;
  TiledReduction tiled;
};

/// Writes the kernel: for each stage a loop over the tile that accumulates its heroes, their combination across
/// threads, and what follows from them. With TiledReduction::splits() > 1, which needs ReductionOutputs::bare, outputs
/// hold the initial values before and are updated atomically.
Result<void> emit_reduction(FusionFunctions& functions, const ReductionPlan& plan, const std::string& name,
                            const Decision& decision);

/// Bytes of shared memory that it takes.
int64_t reduction_shared_bytes(const hlo::Module& module, hlo::ComputationId computation, const ReductionPlan& plan);

/// Whether a hero's results are needed after its stage by threads that do not hold them.
bool is_broadcast(const ReductionPlan& plan, const ReductionHero& hero);

}  // namespace strata::emitters
