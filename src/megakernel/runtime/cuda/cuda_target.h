// The mega-kernel on a GPU: a plan's records and the words that threads meet at in device memory, one cooperative
// launch for many steps, tokens in memory of the host that can be read while the kernel runs.
#pragma once

#include <memory>

#include "megakernel/runtime/cuda/source.h"
#include "megakernel/runtime/step_kernel.h"
#include "runtime/gpu_device.h"

namespace strata::megakernel {

/// While a launch runs nobody may wait for the whole device, as GpuArray's copies do.
class CudaKernel : public StepKernel {
 public:
  /// The device must outlive the kernel, and runs no other. Errors (InvalidInput): those of make_image and of
  /// check_limits; a team that has not kComputeWarps; operators that are not as many as the plan's; a worker's shared
  /// memory that a block does not have; more workers and schedulers than the GPU runs at the same time. (Environment):
  /// a GPU that does not take the code, or has no cooperative launches; too little memory.
  static Result<std::unique_ptr<CudaKernel>> make(const GpuDevice& device, const Plan& plan, const CudaCode& code,
                                                  const KernelOptions& options);
  /// Stops a launch that runs. One that does not end keeps its memory until the process ends.
  ~CudaKernel() override;

  bool running() const override;
  const SharedLayout& layout() const { return layout_; }
  int blocks() const { return blocks_; }

 protected:
  struct Memory;
  CudaKernel(const GpuDevice& device, const Plan& plan, Image image, const CudaCode& code,
             const KernelOptions& options);
  Result<void> load(const CudaCode& code);
  Result<void> find_kernel();
  Result<void> check_fits() const;
  Result<void> allocate();
  uint32_t* host_word(HostWord word) const override;
  const int* host_tokens() const override;
  Result<void> start(uint32_t steps) override;
  Result<bool> await_end() override;
  /// Of a launch that begins: memory and words of the host, with lengths from `first_epoch` on.
  Result<void> begin_launch(uint32_t steps, uint32_t first_epoch);
  /// When nothing runs, or while it does: starts what of the launch has not been started yet and may be. True where
  /// something runs then.
  virtual Result<bool> start_more() const { return false; }
  Result<void> peek(const void* from, std::span<uint32_t> to) const override;

  const GpuDevice* device_;
  int blocks_ = 0;
  SharedLayout layout_{};
  std::unique_ptr<Memory> memory_;
};

}  // namespace strata::megakernel
