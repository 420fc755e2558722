// From kernels over tensors and indices to LLVM.
#pragma once

#include <llvm/IR/Module.h>

#include "emitters/transforms/passes.h"
#include "support/error.h"

namespace strata::emitters {

/// Sees the module after each pass.
using PassObserver = std::function<void(std::string_view pass, mlir::ModuleOp module)>;

/// Lowers a module of kernels to the LLVM dialect. A kernel F becomes
/// `void F_block(ptr tensor…, i32 block, i32 thread, ptr shared)`, with the bytes of shared memory that it needs in its
/// attribute `strata.shared_bytes`. Error (Unsupported) for atomic updates that no hardware has.
Result<void> lower_to_llvm(mlir::ModuleOp module, const LoweringOptions& options, const PassObserver& observer = {});

/// The lowered module as LLVM IR, without data layout and triple.
Result<std::unique_ptr<llvm::Module>> translate(mlir::ModuleOp module, llvm::LLVMContext& context);

struct LoweredKernel {
  std::string name;  ///< of the function: F_block
  int64_t shared_bytes = 0;
};

/// The kernels of a lowered module.
std::vector<LoweredKernel> lowered_kernels(mlir::ModuleOp module);

}  // namespace strata::emitters
