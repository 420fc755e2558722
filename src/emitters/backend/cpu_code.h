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

/// The function `void NAME_thread(void* const* buffers, int block, int thread, void* shared)` of kernel `name` as
/// assembly text of this processor that stands in a C++ source outside functions: no other symbol is global, and local
/// labels begin with the name. It calls strata_barrier and strata_shuffle_* where it waits for other threads.
Result<std::string> make_assembly(llvm::Module& module, const std::string& name, const OptimizeOptions& options);

}  // namespace strata::emitters
