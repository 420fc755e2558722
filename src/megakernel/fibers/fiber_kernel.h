// The mega-kernel on the host, from its device code: all threads of all blocks are fibers of one thread, with warps of
// 32 lanes, so what runs is what a GPU runs. For tests, and to look into models of small size: slow.
#pragma once

#include <memory>
#include <optional>

#include "megakernel/fibers/fiber_device.h"
#include "megakernel/runtime/graph_launches.h"
#include "megakernel/runtime/step_kernel.h"

namespace strata::megakernel {

/// The limits of waits are rounds in which no thread of the kernel wrote anything, each of which counts as 1 ms.
class FiberKernel : public StepKernel {
 public:
  /// Device and code must outlive the kernel. Errors: those of StepKernel::checked_image and FiberDevice::allocate.
  static Result<std::unique_ptr<FiberKernel>> make(FiberDevice& device, const Plan& plan, const FiberCode& code,
                                                   const KernelOptions& options);
  ~FiberKernel() override;

  bool running() const override;

 protected:
  FiberKernel(FiberDevice& device, const Plan& plan, Image image, const FiberCode& code, const KernelOptions& options)
      : StepKernel(plan, std::move(image), options, code.profile()), device_(&device), code_(&code) {}
  Result<void> allocate();
  uint32_t* host_word(HostWord word) const override;
  const int* host_tokens() const override;
  Result<void> start(uint32_t steps) override;
  /// Of a launch that begins: its words and tokens, and the program, whose epochs count from `first_epoch`.
  Result<void> begin_launch(uint32_t steps, uint32_t first_epoch);
  Result<bool> await_end() override;
  Result<void> peek(const void* from, std::span<uint32_t> to) const override;
  unsigned char* here(const void* place) const { return device_->here(reinterpret_cast<uint64_t>(place)); }

  FiberDevice* device_;
  const FiberCode* code_;
  enum Part { kConstants, kEvents, kLaunch, kProfile, kWords, kProgram };
  std::vector<FiberMemory> parts_memory_;
  std::optional<FiberMemory> tokens_;
  mutable std::optional<Process> process_;
};

/// The same steps as a graph of kernels, whose code is FiberCode's with graph_functions: a launch runs one kernel after
/// the other.
class FiberGraphKernel : public FiberKernel {
 public:
  /// Errors: those of FiberKernel::make and of graph_launches.
  static Result<std::unique_ptr<FiberGraphKernel>> make(FiberDevice& device, const Plan& plan, const FiberCode& code,
                                                        const KernelOptions& options);
  Result<std::vector<TracedTask>> trace() const override { return graph_trace(launches_); }

 private:
  FiberGraphKernel(FiberDevice& device, const Plan& plan, Image image, const FiberCode& code,
                   const KernelOptions& options, std::vector<GraphLaunch> launches)
      : FiberKernel(device, plan, std::move(image), code, options), launches_(std::move(launches)) {}
  Result<void> start(uint32_t steps) override;

  std::vector<GraphLaunch> launches_;
  std::optional<FiberMemory> launch_memory_;
  std::optional<FiberMemory> state_;
};

}  // namespace strata::megakernel
