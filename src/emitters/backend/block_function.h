// The form in which kernels reach this folder. Folder-internal; docs/emitters-backend.md has the contract.
#pragma once

#include <string>

#include "support/error.h"

namespace llvm {
class Function;
class Module;
}  // namespace llvm

namespace strata::emitters {

inline constexpr const char* kBarrier = "strata_barrier";           ///< of all threads of a block
inline constexpr const char* kPartBarrier = "strata_part_barrier";  ///< of a part of them

/// NAME_block(ptr buffer..., i32 block, i32 thread, ptr shared).
struct BlockFunction {
  llvm::Function* function = nullptr;
  unsigned buffers = 0;
  bool waits = false;     ///< whether a barrier or a shuffle can be reached
  bool shuffles = false;  ///< whether a shuffle can be, which takes whole warps
};

/// Finds the block function of kernel `name`, checks its signature, and makes it one that is always inlined. What
/// would let LLVM move memory accesses over barriers is taken from it: noalias of `shared`, and of the buffers that it
/// writes where it has a barrier, since to LLVM noalias says that no other thread writes there meanwhile.
Result<BlockFunction> prepare_block_function(llvm::Module& module, const std::string& name);

/// Whether the function, or what it calls, waits at a barrier. Error (Unsupported) for calls through pointers.
Result<bool> reaches_barrier(const llvm::Function& function);

/// Checks the types of strata_barrier and strata_shuffle_* where the module declares them, and marks them, and all
/// that may call them, convergent. Error (InvalidInput) for other types.
Result<void> prepare_device_functions(llvm::Module& module);

/// Gives these functions, where declared, their meaning on NVPTX.
void define_nvptx_device_functions(llvm::Module& module);

}  // namespace strata::emitters
