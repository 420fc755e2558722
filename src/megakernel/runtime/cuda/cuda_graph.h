// A step on a GPU as a CUDA graph: a kernel for each operator, each of which may start before the one before it has
// ended (programmatic dependent launch), to load its constants.
#pragma once

#include "megakernel/runtime/cuda/cuda_target.h"
#include "megakernel/runtime/graph_launches.h"

namespace strata::megakernel {

/// The graph is recorded once, for one step; a launch starts it for each step, a few ahead of the one that runs. Once a
/// step was the last, the kernels of graphs that were started after it do nothing.
class CudaGraphKernel : public CudaKernel {
 public:
  /// `code`: of compile_cuda_code with graph_functions. Errors: those of CudaKernel::make, but for cooperative launches
  /// and workers, and of graph_launches.
  static Result<std::unique_ptr<CudaGraphKernel>> make(const GpuDevice& device, const Plan& plan, const CudaCode& code,
                                                       const KernelOptions& options);
  ~CudaGraphKernel() override;

  bool running() const override;
  Result<std::vector<TracedTask>> trace() const override { return graph_trace(launches_); }

 private:
  struct Graph;
  CudaGraphKernel(const GpuDevice& device, const Plan& plan, Image image, const CudaCode& code,
                  const KernelOptions& options, std::vector<GraphLaunch> launches);
  Result<void> find_kernels();
  Result<void> record();
  Result<void> start(uint32_t steps) override;
  Result<bool> start_more() const override;

  std::vector<GraphLaunch> launches_;
  std::unique_ptr<Graph> graph_;
};

}  // namespace strata::megakernel
