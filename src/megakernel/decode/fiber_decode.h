// Decode steps on the host, by the device code that a GPU would run (megakernel/fibers).
#pragma once

#include "megakernel/decode/decode_target.h"
#include "megakernel/fibers/fiber_kernel.h"

namespace strata::megakernel {

class FiberDecodeTarget : public DecodeTarget {
 public:
  /// In place of a GPU of `machine`. Error (Environment): that of FiberDevice::open.
  static Result<std::unique_ptr<FiberDecodeTarget>> open(const HostCompiler& compiler = {.options = {"-O1"}},
                                                         const Target& machine = default_target());

  const Target& machine() const override { return *machine_; }
  Result<void> compile(const std::string& functions, int count, std::span<const std::string> kernels, StepForm form,
                       bool profile) override;
  Result<void> check_room(int64_t bytes) const override;
  Result<std::unique_ptr<DecodeMemory>> allocate(int64_t bytes) override;
  Result<void> pack(const std::string& kernel, const std::vector<int64_t>& grid, std::span<const uint64_t> arguments,
                    bool waits = true) override;
  std::unique_ptr<DecodeTarget> beside() const override {
    return std::unique_ptr<FiberDecodeTarget>(new FiberDecodeTarget(device_, compiler_, *machine_));
  }
  Result<std::unique_ptr<StepKernel>> step_kernel(const Plan& plan, const KernelOptions& options,
                                                  StepForm form) override;

  /// Of the threads of launches from now on (FiberDevice::set_order).
  void set_order(std::string order) { device_->set_order(std::move(order)); }

 private:
  FiberDecodeTarget(std::shared_ptr<FiberDevice> device, HostCompiler compiler, const Target& machine)
      : device_(std::move(device)), compiler_(std::move(compiler)), machine_(&machine) {}

  std::shared_ptr<FiberDevice> device_;
  HostCompiler compiler_;
  const Target* machine_;
  std::unique_ptr<FiberCode> code_;   ///< of the mega-kernel
  std::unique_ptr<FiberCode> graph_;  ///< of the graph's kernels
};

}  // namespace strata::megakernel
