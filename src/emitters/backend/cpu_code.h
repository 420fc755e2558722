// LLVM modules of block functions to code of this process. Folder-internal; see cpu_kernel.h.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "emitters/backend/cpu_block.h"
#include "emitters/backend/jit.h"
#include "emitters/backend/optimize.h"

namespace strata::emitters {

struct KernelCode {
  std::string name;
  std::shared_ptr<LinkedCode> owner;
  ThreadCode entry = nullptr;        ///< of one thread; where nothing waits, of all, and gets their number
  bool waits = false;                ///< for other threads of its block, in barriers or shuffles
  std::vector<uint64_t> alignments;  ///< of the buffers, bytes
  size_t stack_bytes = 0;            ///< of all functions of the module together
};

Result<std::vector<KernelCode>> make_cpu_code(llvm::Module& module, std::span<const std::string> names,
                                              const OptimizeOptions& options);

}  // namespace strata::emitters
