// Loops until a condition is false as one kernel each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "emitters/backend/loop_function.h"
#include "emitters/emit.h"
#include "emitters/program.h"
#include "runtime/launch_manifest.h"

namespace strata::emitters {

/// A loop whose blocks stay for all iterations and wait for each other between the body's steps: the device decides
/// whether it goes on, and an iteration costs its steps and their barriers alone.
class LoopKernel {
 public:
  /// Its arguments are `arguments()`, and two counters of 32 bits after them, 0 before a run and after it.
  const std::string& name() const { return function_.name; }
  const std::vector<std::string>& arguments() const { return arguments_; }
  /// At most: fewer will do, which all have to run at the same time.
  int64_t blocks() const { return function_.blocks; }
  int threads() const { return function_.threads; }
  int64_t shared_bytes() const { return function_.shared_bytes; }

  /// What its body consists of.
  const std::vector<EmittedFusion>& fusions() const { return fusions_; }

  /// Makes its PTX; not by two threads at once. Error (Unsupported) where a kernel of the body cannot be a part of
  /// another one; Environment where this build makes no PTX.
  const Result<std::string>& compile();
  /// What compile() has made.
  const Result<std::string>& ptx() const { return ptx_; }
  /// Of one block, on arrays in memory, as EmittedFusion::run_on_cpu: the arguments, and the counters.
  Result<void> run_on_cpu(std::span<void* const> buffers) const;

 private:
  friend std::optional<LoopKernel> loop_kernel(const LaunchManifest&, const GpuLoop&, const std::string&,
                                               const EmittedProgram&, const EmitOptions&);
  LoopFunction function_;
  Target target_ = default_target();
  std::vector<std::string> arguments_;
  std::vector<EmittedFusion> fusions_;
  Result<std::string> ptx_ = unsupported("the loop was not compiled");
};

/// The kernel of a loop that the manifest's steps would do otherwise, of which `body` has the fusions; nothing where
/// - it runs once at most;
/// - its condition computes anything (hlo::carry_conditions leaves none of these);
/// - anything of its body is a library's, the superoptimizer's, the host's or a loop, or computes products in
///   registers, of which a thread of so large a block has too few;
/// - an iteration has so much to do that what comes between its steps does not matter;
/// - its iterations are counted, and launches, which follow each other without the host then, are estimated to take no
///   longer than the barriers of the kernel and what fewer threads take longer (docs/emitters-modules.md).
std::optional<LoopKernel> loop_kernel(const LaunchManifest& manifest, const GpuLoop& loop, const std::string& name,
                                      const EmittedProgram& body, const EmitOptions& options);

}  // namespace strata::emitters
