// LLVM's optimizer over a module of kernels, with the math library linked in.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "support/error.h"

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace strata::emitters {

/// Sees the module after the stages "input" (as given), "linked" (with the math library and the kernels' entries),
/// "optimized" and, for PTX, "lowered" (atomics as instructions of the GPU).
using DumpHook = std::function<void(std::string_view stage, const llvm::Module&)>;

struct OptimizeOptions {
  std::span<const std::byte> math{};  ///< bitcode that defines what the kernels call; may be empty
  int level = 2;                      ///< 1 to 3, as in -O2
  DumpHook dump{};
};

/// Verifies `module`, links what it needs of the math library, makes all but the functions `keep` internal, inlines
/// what must be and runs LLVM's pipeline for `machine`, whose triple and data layout the module gets. Error
/// (InvalidInput) with LLVM's words for a module or bitcode that is malformed.
Result<void> optimize(llvm::Module& module, llvm::TargetMachine& machine, std::span<const std::string> keep,
                      const OptimizeOptions& options);

/// Error (InvalidInput) with LLVM's words where the module is malformed.
Result<void> verify(const llvm::Module& module);

}  // namespace strata::emitters
