// The mega-kernel on a GPU: a plan's records and the words that threads meet at in device memory, one cooperative
// launch for many steps, tokens in memory of the host that can be read while the kernel runs. Launched, read and
// stopped as the one on the host is (host_target.h).
#pragma once

#include <chrono>
#include <memory>
#include <span>

#include "megakernel/runtime/cuda/source.h"
#include "megakernel/runtime/cuda/words.h"
#include "megakernel/runtime/image.h"
#include "megakernel/runtime/report.h"
#include "megakernel/runtime/trace.h"
#include "runtime/gpu_device.h"

namespace strata::megakernel {

/// A worker's shape on a GPU from Hopper on; others may have less.
inline WorkerShape cuda_shape() {
  return {.ring_bytes = 184'320,
          .ring_stages = 32,
          .window_bytes = 49'152,
          .scratch_bytes = 36'864,
          .warps = kComputeWarps,
          .listed = 4,
          .queue_capacity = 64};
}

struct CudaOptions {
  WorkerShape shape = cuda_shape();
  std::vector<OperatorRecord> operators;  ///< of the plan's operators, in device memory; none: all arguments are null
  std::vector<int> lengths;               ///< by sequence: filled positions of its cache before the first launch
  Placement placement = Placement::RoundRobin;
  int tokens_per_step = 1;
  std::chrono::milliseconds limit{2000};       ///< of each wait within a step; more than a step takes
  std::chrono::milliseconds start_limit{100};  ///< until all workers and schedulers have started
  uint32_t profile_capacity = 4096;            ///< tasks for each worker and role, where the code records them

  // Faults, for tests.
  int lost_event = -1;    ///< of whose signals, in the first launch, one is lost
  int absent_blocks = 0;  ///< the last ones, which never start
};

/// One kernel at a time; a second launch goes on where the one before stopped. Tokens of a launch stay readable until
/// the next one. While a launch runs nobody may wait for the whole device, as GpuArray's copies do.
class CudaKernel {
 public:
  /// The device must outlive the kernel, and runs no other. Errors (InvalidInput): those of make_image and of
  /// check_limits; a team that has not kComputeWarps; operators that are not as many as the plan's; a worker's shared
  /// memory that a block does not have; more workers and schedulers than the GPU runs at the same time. (Environment):
  /// a GPU that does not take the code, or has no cooperative launches; too little memory.
  static Result<std::unique_ptr<CudaKernel>> make(const GpuDevice& device, const Plan& plan, const CudaCode& code,
                                                  const CudaOptions& options);
  /// Stops a launch that runs. One that does not end keeps its memory until the process ends.
  ~CudaKernel();
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;

  /// Starts the kernel for at most so many steps. Errors (InvalidInput): no steps; a launch that has not been waited
  /// for; a launch after one that failed; epochs beyond 2³⁰. (Environment): the driver refuses.
  Result<void> launch(uint32_t steps);
  /// Filled positions of the sequences' caches before the next launch. Between launches.
  void set_lengths(std::vector<int> lengths) { options_.lengths = std::move(lengths); }
  /// Ends the launch after the step that runs now, or after the next one.
  void request_stop();
  /// Steps of this launch whose tokens can be read.
  uint32_t steps_done() const;
  /// Those of a step, counted from 0, of this launch.
  std::span<const int> tokens(uint32_t step) const;
  bool running() const;
  /// Whether some wait has ended the kernel. Error (Environment): the GPU does not answer.
  Result<bool> aborted() const;
  /// If it was aborted; while it runs, what has been reported so far. Error (Environment): the GPU does not answer.
  Result<AbortReport> report() const;
  /// Until the kernel has ended. The number of steps done; errors (Environment): the kernel was aborted, with the
  /// report, which comes too where a block function does not return; it failed otherwise, with the driver's word for
  /// it.
  Result<uint32_t> wait();
  /// What the last launch recorded, if the code does. Errors (InvalidInput): tasks beyond profile_capacity.
  Result<std::vector<TracedTask>> trace() const;

  const SharedLayout& layout() const { return layout_; }
  int blocks() const { return blocks_; }

 private:
  struct Memory;
  CudaKernel(const GpuDevice& device, const Plan& plan, Image image, const CudaOptions& options);
  Result<void> load(const CudaCode& code);
  Result<void> check_fits() const;
  Result<void> allocate();
  Result<void> start(uint32_t steps);
  /// Copies from device memory while the kernel runs.
  Result<void> peek(CudaPointer from, std::span<uint32_t> to) const;

  const GpuDevice* device_;
  Plan plan_;
  Image image_;
  CudaOptions options_;
  bool profile_ = false;
  int blocks_ = 0;
  SharedLayout layout_{};
  std::unique_ptr<Memory> memory_;
  Program<CudaWords> program_{};
  uint32_t next_epoch_ = 1;
  bool launched_ = false;
  bool failed_ = false;
};

}  // namespace strata::megakernel
