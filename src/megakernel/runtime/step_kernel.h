// A plan's steps from the host's side, whatever device they run on: launched, read while they run, stopped, and asked
// why they ended before their time. A GPU (cuda/cuda_target.h) and the host's fibers (megakernel/fibers) are such
// devices. On each, a step runs as the mega-kernel or as a graph of kernels.
#pragma once

#include <chrono>
#include <span>

#include "megakernel/runtime/cuda/graph_words.h"
#include "megakernel/runtime/cuda/words.h"
#include "megakernel/runtime/image.h"
#include "megakernel/runtime/report.h"
#include "megakernel/runtime/trace.h"
#include "megakernel/tgraph/machine.h"

namespace strata::megakernel {

/// How a plan's step runs: as one kernel for many steps, or as a kernel for each operator, in a graph for each step.
enum class StepForm : uint8_t { Megakernel, Graph };

/// A worker's shape on a GPU from Hopper on; others may have less.
inline WorkerShape cuda_shape() {
  const Machine machine;
  return {.ring_bytes = machine.ring_bytes,
          .ring_stages = static_cast<int>(machine.ring_stages),
          .window_bytes = machine.window_bytes,
          .ahead_bytes = 131'072,
          .scratch_bytes = machine.scratch_bytes,
          .warps = kComputeWarps,
          .listed = 4,
          .queue_capacity = 64};
}

struct KernelOptions {
  WorkerShape shape = cuda_shape();
  std::vector<OperatorRecord> operators;  ///< of the plan's operators, in device memory; none: all arguments are null
  std::vector<int> lengths;               ///< by sequence: filled positions of its cache before the first launch
  Placement placement = Placement::RoundRobin;
  unsigned without = 0;  ///< Program::without
  int tokens_per_step = 1;
  std::chrono::milliseconds limit{2000};       ///< of each wait within a step; more than a step takes
  std::chrono::milliseconds start_limit{100};  ///< until all workers and schedulers have started
  uint32_t profile_capacity = 4096;            ///< the last tasks of each worker and role, where the code records them

  // Faults, for tests.
  int lost_event = -1;    ///< of whose signals, in the first launch, one is lost
  int absent_blocks = 0;  ///< the last ones, which never start
};

/// A plan's arrays and the words that threads meet at, as they lie in device memory.
class KernelMemory {
 public:
  KernelMemory(const Plan& plan, const Image& image, const KernelOptions& options, bool profile);

  /// What no launch changes.
  const std::string& constants() const { return constants_; }
  size_t event_bytes = 0;    ///< counters: 0 before the first launch, and kept from one to the next
  size_t launch_bytes = 0;   ///< of one launch: 0 at its begin, but for StepKernel::first_words
  size_t profile_bytes = 0;  ///< 0: nothing is recorded
  size_t report_words = 0;   ///< of Program::reports

  /// Where these are on a device; the last two are words of the host.
  struct Places {
    uint64_t constants, events, launch, profile, stop_requested, steps_done;
  };
  /// All but the tokens and the epochs.
  Program<CudaWords> program(const Places& places) const;

 private:
  Program<CudaWords> offsets_{};  ///< pointers from the begin of their part
  std::string constants_;
};

/// One kernel at a time; a second launch goes on where the one before stopped. Tokens of a launch stay readable until
/// the next one: there is a place for each step of a launch, so the kernel never waits for the host.
class StepKernel {
 public:
  virtual ~StepKernel() = default;
  StepKernel(const StepKernel&) = delete;
  StepKernel& operator=(const StepKernel&) = delete;

  /// Starts the kernel for at most so many steps. Errors (InvalidInput): no steps; a launch that has not been waited
  /// for; a launch after one that failed; epochs beyond 2³⁰. (Environment): the device refuses.
  Result<void> launch(uint32_t steps);
  /// Filled positions of the sequences' caches before the next launch. Between launches.
  void set_lengths(std::vector<int> lengths) { options_.lengths = std::move(lengths); }
  /// Ends the launch after the step that runs now, or after the next one.
  void request_stop();
  /// Steps of this launch whose tokens can be read.
  uint32_t steps_done() const;
  /// Those of a step, counted from 0, of this launch.
  std::span<const int> tokens(uint32_t step) const;
  virtual bool running() const = 0;
  /// Whether some wait has ended the kernel. Error (Environment): the device does not answer.
  Result<bool> aborted() const;
  /// If it was aborted; while it runs, what has been reported so far. Error (Environment): the device does not answer.
  Result<AbortReport> report() const;
  /// Until the kernel has ended. The number of steps done; errors (Environment): the kernel was aborted, with the
  /// report, which comes too where a block function does not return; it failed otherwise, with the device's word for
  /// it.
  Result<uint32_t> wait();
  /// What the last launch recorded, if the code does: of each worker and role the last profile_capacity tasks, in
  /// order. Errors (InvalidInput): a launch is running.
  virtual Result<std::vector<TracedTask>> trace() const;

 protected:
  StepKernel(const Plan& plan, Image image, const KernelOptions& options, bool profile);
  /// Errors (InvalidInput): those of make_image and of check_limits; a team that has not kComputeWarps; operators that
  /// are not as many as the plan's.
  static Result<Image> checked_image(const Plan& plan, const KernelOptions& options);

  enum class HostWord { StopRequested, StepsDone };
  virtual uint32_t* host_word(HostWord word) const = 0;
  virtual const int* host_tokens() const = 0;
  /// Starts a launch of so many steps, beginning with begin_steps.
  virtual Result<void> start(uint32_t steps) = 0;
  /// Until the launch has ended; or, false, until it was aborted and goes on nevertheless.
  virtual Result<bool> await_end() = 0;
  /// Words of device memory, while the kernel runs or between launches.
  virtual Result<void> peek(const void* from, std::span<uint32_t> to) const = 0;
  /// Words of the host and epochs of a launch; `device_tokens`: host_tokens() as kernels see them.
  void begin_steps(uint32_t steps, int* device_tokens);
  /// What is not 0 of a launch's memory at its begin, and a counter with a lost signal: words of device memory. Lengths
  /// are those before the step of epoch `first_epoch`, as Program has it.
  std::vector<std::pair<const void*, uint32_t>> first_words(uint32_t first_epoch) const;
  void end_launch();  ///< of a destructor: stops it and waits
  /// What a graph's kernels have recorded of the last launch.
  Result<std::vector<TracedTask>> graph_trace(std::span<const GraphLaunch> launches) const;
  /// Those with room for the records of as many steps as profile_capacity allows, where the code records them. Error
  /// (InvalidInput) where it allows none.
  Result<void> make_room(std::span<GraphLaunch> launches) const;

  Plan plan_;
  Image image_;
  KernelOptions options_;
  bool profile_;
  KernelMemory parts_;
  Program<CudaWords> program_{};
  uint32_t next_epoch_ = 1;
  bool launched_ = false;

 private:
  bool failed_ = false;
};

}  // namespace strata::megakernel
