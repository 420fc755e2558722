// Kernels on the CPU, as they would run on a GPU: compiled in process, a block's threads as fibers where they meet in
// barriers or shuffles.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "emitters/backend/optimize.h"
#include "support/error.h"

namespace strata::emitters {

/// In which order the threads of a block run between two barriers. Results that differ show a barrier that is missing.
enum class ThreadOrder { Ascending, Descending };

struct RunOptions {
  std::stop_token stop{};                      ///< looked at between blocks
  ThreadOrder order = ThreadOrder::Ascending;  ///< of kernels with barriers or shuffles
};

/// A compiled kernel. Copies share the code. Kernels may be compiled and run in several threads at once; within a run
/// nothing is parallel, and atomic operations are plain ones.
class CpuKernel {
 public:
  /// Runs `blocks` blocks of `threads` threads, one after the other. `shared_bytes` of shared memory are 0xff bytes,
  /// NaN in every floating-point type, when a block starts. Error (InvalidInput) for numbers that a GPU would not take,
  /// buffers that are too few or not aligned as the kernel says, and threads that wait for others in vain; Error
  /// (Interrupted) when `stop` is requested. After an error buffers hold what was written so far.
  Result<void> run(std::span<void* const> buffers, int64_t blocks, int threads, size_t shared_bytes,
                   const RunOptions& options = {}) const;

  /// Whether threads are fibers, else they are turns of a loop.
  bool uses_fibers() const;
  /// Of one thread, at most.
  size_t stack_bytes() const;

 private:
  friend class CpuCompiler;
  struct Code;
  std::shared_ptr<const Code> code_;
};

/// The kernels `names` (NAME_block is the block function of NAME) of `module`, in order. `module` is used up: it may be
/// destroyed, nothing else. Error (InvalidInput) where a block function is missing or not of that form; Error
/// (Unsupported) where LLVM cannot, or a kernel is recursive or needs more than 96 KiB of stack.
Result<std::vector<CpuKernel>> compile_for_cpu(llvm::Module& module, std::span<const std::string> names,
                                               const OptimizeOptions& options = {});

}  // namespace strata::emitters
