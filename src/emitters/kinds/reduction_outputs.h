// Where a reduction's kernel writes each output of its fusion, and whether that is right: code is written for one row
// at a time, so every use of a reduction's result must be of the row at hand.
#pragma once

#include "emitters/kinds/reduction_shape.h"
#include "hlo/indexing/function_partition.h"

namespace strata::emitters {

/// One function of the partition that returns outputs.
struct ReductionWrite {
  int function = 0;
  /// Written where elements are read, in loop `stage`: that which accumulates the heroes of that stage, or after all of
  /// them one more. Else by the threads that have the heroes of `stage`, once a row.
  bool elementwise = false;
  int stage = 0;
  /// From the groups to the function's indices; for a row, its range variables run through the indices that use it.
  indexing::IndexingMap index;
};

struct ReductionOutputs {
  indexing::FunctionPartition partition;  ///< with the reductions as heroes
  std::vector<ReductionWrite> writes;
  /// Whether each hero is an output as it lies in memory, and all outputs else need none: then blocks may share rows.
  bool bare = false;
};

/// What a root of the partition gives as it lies in memory: what its reshapes are of.
hlo::InstructionId source_of(const hlo::Computation& computation, const indexing::FunctionPartition& partition,
                             size_t root);

/// Unsupported where an output is of another shape, or where results of other rows are used.
Result<ReductionOutputs> plan_reduction_outputs(const hlo::Module& module, hlo::ComputationId computation,
                                                const ReductionHeroes& heroes);

}  // namespace strata::emitters
