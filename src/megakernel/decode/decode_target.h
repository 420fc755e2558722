// What a decode step runs on: memory, the image's code, launches of its packing kernels, and the steps of its
// plan. A GPU is one (cuda_decode.h), the host another (fiber_decode.h); DecodeSession knows no more of them than this.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "machine/target.h"
#include "megakernel/runtime/step_kernel.h"

namespace strata::megakernel {

/// Memory of a target with an owner; the target must outlive it.
class DecodeMemory {
 public:
  virtual ~DecodeMemory() = default;
  /// As kernels know it.
  virtual uint64_t address() const = 0;
  /// `bytes` must be as long as the memory.
  virtual Result<void> upload(std::string_view bytes) = 0;
  virtual Result<std::string> download() const = 0;
  virtual Result<void> clear() = 0;
};

class DecodeTarget {
 public:
  virtual ~DecodeTarget() = default;

  /// What code is generated for: how large a worker's shared memory is, and what its instructions are.
  virtual const Target& machine() const = 0;
  /// Compiles an image's functions (DecodeImage::text), as many block functions as `count` says and the packing kernels
  /// of those names, for steps of that form; before anything of them is run. Once for each form. Errors: Unsupported
  /// where they do not fit a thread, Environment where the compiler is missing or fails.
  virtual Result<void> compile(const std::string& functions, int count, std::span<const std::string> kernels,
                               StepForm form, bool profile) = 0;
  /// Error (Environment) where so much memory is not there to allocate.
  virtual Result<void> check_room(int64_t bytes) const = 0;
  virtual Result<std::unique_ptr<DecodeMemory>> allocate(int64_t bytes) = 0;
  /// Runs a packing kernel, or one of a caller's step, with addresses as arguments, 0 for null. It has ended where
  /// `waits`; else when the next that waits has.
  virtual Result<void> pack(const std::string& kernel, const std::vector<int64_t>& grid,
                            std::span<const uint64_t> arguments, bool waits = true) = 0;
  /// Another one of the same device and memory, for other code. It must not outlive this one.
  virtual std::unique_ptr<DecodeTarget> beside() const = 0;
  /// Of a form that was compiled.
  virtual Result<std::unique_ptr<StepKernel>> step_kernel(const Plan& plan, const KernelOptions& options,
                                                          StepForm form) = 0;
  /// What an earlier start on such a device remembered of a step that `key` describes, by the same build.
  virtual std::optional<std::string> recall(const std::string& /*key*/) { return std::nullopt; }
  virtual void remember(const std::string& /*key*/, const std::string& /*text*/) {}
};

}  // namespace strata::megakernel
