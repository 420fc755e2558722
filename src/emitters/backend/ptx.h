// LLVM modules of block functions to PTX, with a kernel for each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emitters/backend/optimize.h"
#include "support/error.h"

namespace strata::emitters {

/// One kernel NAME(buffers...) over the block function NAME_block of the module.
struct PtxKernel {
  std::string name;    ///< letters, digits, '_' and '$': what PTX allows
  int threads = 0;     ///< of a block, 1 to 1024; it can be launched with no other number
  int64_t blocks = 0;  ///< of the grid, at most 2^31-1; 0 where it is not known
  int min_blocks = 0;  ///< that an SM shall hold at once; 0: no matter. Not with max_registers
};

struct PtxOptions {
  std::string arch;                ///< "sm_80" or "sm_90a" (Target::name)
  std::vector<PtxKernel> kernels;  ///< all other functions become internal
  int max_registers = 0;           ///< of a thread; 0: no limit
  int ptx_version = 85;            ///< 8.5, the newest of LLVM 19, needs CUDA 12.5; 81 serves CUDA 12.1
  /// Kernels let the next one on the stream start at once, and wait for the one before (programmatic dependent launch):
  /// they may be launched while it runs. Needs sm_90.
  bool overlap = false;
  OptimizeOptions optimize{};
};

/// The PTX of `module`, which is used up: it may be destroyed, nothing else. A kernel is launched with `blocks` blocks
/// in x, its dynamic shared memory is what the block function gets as `shared`, aligned to 16 bytes. Error
/// (InvalidInput) where a block function is missing or not of that form; Error (Unsupported) where LLVM cannot.
Result<std::string> to_ptx(llvm::Module& module, const PtxOptions& options);

/// to_ptx, then runtime/nv_jit_link.h.
Result<std::vector<char>> to_cubin(llvm::Module& module, const PtxOptions& options);

}  // namespace strata::emitters
