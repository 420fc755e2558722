// Transposes to the inputs, where they are views that cost nothing.
#pragma once

#include "ir/graph.h"

namespace strata {

/// The same program with transposes moved from results to operands: over elementwise operators, reductions and products
/// that nothing else reads, until they stand at inputs or at operators that regroup dimensions. So keys that are
/// normalised as they are stored and transposed after it become keys that are transposed first, and what follows is
/// one part of the partition. Outputs keep their names. The program itself where there is nothing to move; Error
/// (Unsupported) where an output would be no tensor of its own any more.
Result<GraphPtr> hoist_transposes(const GraphPtr& program);

}  // namespace strata
