// Atomic updates of elements in memory.
#pragma once

#include "emitters/dialect/atomic_fetch.h"
#include "emitters/transforms/passes.h"

namespace strata::emitters {

/// Begins the names of functions (pointer, vector) that stand for the addition of a vector in memory: MLIR 19 has no
/// such instruction, LLVM has. translate() puts it there.
inline constexpr const char* kVectorSum = "strata_atomic_add_";

/// Code before the operation that combines the element at `pointer`, which may be in any address space, with the
/// operation's value: an instruction, or a call of kVectorSum, where there is one, else a loop of compare-and-swap.
/// Fails, with a diagnostic, for elements of 128 bits that are not sums.
mlir::LogicalResult lower_atomic(AtomicRmwOp op, mlir::Value pointer, const LoweringOptions& options);

/// The same for an integer, by one instruction, whose result replaces the element as it was.
void lower_atomic_fetch(AtomicFetchOp op, mlir::Value pointer);

}  // namespace strata::emitters
