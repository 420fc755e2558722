// Which outputs a fusion's kernels may write over their inputs, found in their code: what the kernels do counts, and
// not which emitter has written them.
#pragma once

#include <mlir/Dialect/Func/IR/FuncOps.h>

#include <vector>

#include "emitters/emit.h"

namespace strata::emitters {

/// Kernels whose calls are inlined where that was worth it, and whose indices are simplified, in the order in which
/// they run, with their launches. Of their arguments the first `inputs` are inputs, the next `outputs` are outputs. A
/// pair is listed where output and input have the same elements, and what is read of the input is read before it is
/// written over: by an earlier kernel, or by the thread that writes the same position, before, in the same pass of the
/// same loops. So two pairs of one output, or of one input, exclude each other.
std::vector<Overwrite> possible_overwrites(const std::vector<mlir::func::FuncOp>& kernels,
                                           const std::vector<Launch>& launches, size_t inputs, size_t outputs);

}  // namespace strata::emitters
