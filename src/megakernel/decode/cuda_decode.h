// Decode steps on a GPU.
#pragma once

#include "megakernel/decode/decode_target.h"
#include "megakernel/runtime/cuda/cuda_graph.h"

namespace strata::megakernel {

/// That of the device's compute capability; sm_90a where no code is generated for it, so that loading code fails with
/// the driver's reason.
const Target& target_of(const GpuDevice& device);

class CudaDecodeTarget : public DecodeTarget {
 public:
  /// `machine` is the device's (target_of), with the rates that plans are made by. The device must outlive the target,
  /// and so must the cache of compiled code, if there is one.
  CudaDecodeTarget(const GpuDevice& device, Target machine, ResultCache* cache = nullptr)
      : device_(&device), machine_(std::move(machine)), cache_(cache) {}
  ~CudaDecodeTarget() override;

  const Target& machine() const override { return machine_; }
  Result<void> compile(const std::string& functions, int count, std::span<const std::string> kernels, StepForm form,
                       bool profile) override;
  Result<void> check_room(int64_t bytes) const override;
  Result<std::unique_ptr<DecodeMemory>> allocate(int64_t bytes) override;
  Result<void> pack(const std::string& kernel, const std::vector<int64_t>& grid, std::span<const uint64_t> arguments,
                    bool waits = true) override;
  std::unique_ptr<DecodeTarget> beside() const override {
    return std::make_unique<CudaDecodeTarget>(*device_, machine_, cache_);
  }
  Result<std::unique_ptr<StepKernel>> step_kernel(const Plan& plan, const KernelOptions& options,
                                                  StepForm form) override;
  /// In the cache.
  std::optional<std::string> recall(const std::string& key) override;
  void remember(const std::string& key, const std::string& text) override;

  /// Of the code of a form.
  const RegisterUse& registers(StepForm form) const { return (form == StepForm::Graph ? graph_ : code_).use; }

 private:
  std::string key_here(const std::string& key) const;

  const GpuDevice* device_;
  Target machine_;
  ResultCache* cache_;
  CudaCode code_;   ///< of the mega-kernel
  CudaCode graph_;  ///< of the graph's kernels
  CudaModule packing_ = nullptr;
};

}  // namespace strata::megakernel
