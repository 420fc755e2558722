// The mega-kernel's device code as a program of the host: the same core, block functions and roles as on a GPU
// (runtime/cuda/source.h), with a platform of fibers, behind the device library for a host compiler.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "megakernel/fibers/process.h"
#include "superopt/codegen/host_run.h"

namespace strata::megakernel {

/// `functions`: as of cuda_source. `kernels`: names of those that pack constants, which the functions define.
/// `graph_functions`: as of cuda_source.
std::string fiber_source(std::string_view functions, std::span<const std::string> kernels, bool profile,
                         int graph_functions = 0);

/// A compiled program: an open file that no folder has.
class FiberCode {
 public:
  /// Compiles fiber_source. Errors (Environment): no temporary folder; the compiler, with what it says.
  static Result<std::unique_ptr<FiberCode>> compile(std::string_view functions, std::span<const std::string> kernels,
                                                    bool profile, const HostCompiler& compiler,
                                                    int graph_functions = 0);

  /// Its path, for this process and those that it starts.
  std::string program() const { return "/proc/self/fd/" + std::to_string(file_.number()); }
  bool profile() const { return profile_; }

 private:
  FiberCode(OpenFile file, bool profile) : file_(std::move(file)), profile_(profile) {}

  OpenFile file_;
  bool profile_;
};

}  // namespace strata::megakernel
