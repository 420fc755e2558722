// Atomic updates of elements in memory.
#pragma once

#include "emitters/dialect/atomic_fetch.h"
#include "emitters/transforms/passes.h"

namespace strata::emitters {

/// Code before the operation that combines the element at `pointer`, which may be in any address space, with the
/// operation's value: an instruction where there is one, else a loop of compare-and-swap. Fails, with a diagnostic,
/// for elements of 128 bits that are not sums.
mlir::LogicalResult lower_atomic(AtomicRmwOp op, mlir::Value pointer, const LoweringOptions& options);

/// The same for an integer, by one instruction, whose result replaces the element as it was.
void lower_atomic_fetch(AtomicFetchOp op, mlir::Value pointer);

}  // namespace strata::emitters
