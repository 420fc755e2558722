// The mega-kernel on the host: the core (core/*.h) with threads for each role of each worker, several for compute, and
// one for each scheduler, on block functions that are given as functions. It is launched, read and stopped as one on a
// GPU is.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>

#include "megakernel/runtime/core/scheduler.h"
#include "megakernel/runtime/core/worker.h"
#include "megakernel/runtime/host_platform.h"
#include "megakernel/runtime/image.h"
#include "megakernel/runtime/report.h"
#include "megakernel/runtime/trace.h"

namespace strata::megakernel {

using HostLoad = LoadSide<HostPlatform>;
using HostCompute = ComputeSide<HostPlatform>;

/// The roles of a block function; a role that is left out has nothing to do. All threads of a worker's team call
/// compute, at the same time, and those of different workers too. After an abort (left()) what they read means nothing,
/// and they should return, all of a team at the same place.
struct HostFunction {
  std::function<void(const Descriptor&, HostLoad&)> load;
  std::function<void(const Descriptor&, HostCompute&)> compute;
};

struct HostOptions {
  WorkerShape shape;
  int lanes = 2;                          ///< threads of each warp of compute
  std::vector<OperatorRecord> operators;  ///< of the plan's operators; none: all arguments are null
  std::vector<int> lengths;               ///< by sequence: filled positions of its cache before the first launch
  unsigned without = 0;                   ///< Program::without
  Placement placement = Placement::RoundRobin;
  int tokens_per_step = 1;
  std::chrono::milliseconds limit{2000};       ///< of each wait within a step
  std::chrono::milliseconds start_limit{100};  ///< until all workers and schedulers have started
  bool profile = false;                        ///< the last profile_capacity tasks of each worker and role
  uint32_t profile_capacity = 4096;

  bool delays = false;                          ///< at each synchronisation, sometimes
  bool late_stores = false;                     ///< bulk copies and tagged words arrive late, in any order
  uint64_t seed = 0;                            ///< of both
  std::chrono::milliseconds meet_limit{30000};  ///< for threads of a team to meet

  // Faults, for tests.
  int absent_worker = -1;  ///< which never starts
  int lost_event = -1;     ///< of whose signals, in one launch,
  int lost_signal = 0;     ///< this one is lost, from 1
};

/// One kernel at a time; a second launch goes on where the one before stopped. Tokens of a launch stay readable until
/// the next one: there is a place for each step of a launch, so the kernel never waits for the host.
class HostKernel {
 public:
  /// Errors (InvalidInput): those of make_image and of check_limits; functions or operators that are not as many as the
  /// plan's.
  static Result<std::unique_ptr<HostKernel>> make(const Plan& plan, std::vector<HostFunction> functions,
                                                  const HostOptions& options);
  ~HostKernel();
  HostKernel(const HostKernel&) = delete;
  HostKernel& operator=(const HostKernel&) = delete;

  /// Starts the kernel for at most so many steps. Errors (InvalidInput): no steps; a launch that has not been waited
  /// for; a launch after one that failed; epochs beyond 2³⁰.
  Result<void> launch(uint32_t steps);
  /// Ends the launch after the step that runs now, or after the next one.
  void request_stop();
  /// Steps of this launch whose tokens can be read.
  uint32_t steps_done() const;
  /// Those of a step, counted from 0, of this launch.
  std::span<const int> tokens(uint32_t step) const;
  /// Threads that have not ended.
  int running() const { return running_.load(std::memory_order_acquire); }
  bool aborted() const;
  /// If it was aborted; while threads run, what they wait for now.
  AbortReport report() const;
  /// Joins all threads. The number of steps done; errors: Environment, with the report, if the kernel was aborted, or
  /// if some threads of a team did not meet.
  Result<uint32_t> wait();
  /// Calls of Platform::release_for_copies, by all threads of all launches.
  int releases_for_copies() const { return machine_.releases_for_copies.load(std::memory_order_relaxed); }
  /// What the last launch recorded, if `profile`: of each worker and role the last profile_capacity tasks, in order.
  Result<std::vector<TracedTask>> trace() const;

 private:
  struct Worker;
  HostKernel(const Plan& plan, Image image, std::vector<HostFunction> functions, const HostOptions& options);
  template <bool kProfile>
  void start_threads();

  Plan plan_;
  Image image_;
  std::vector<QueuedTask> queued_;
  std::vector<HostFunction> functions_;
  HostOptions options_;
  HostMachine machine_;
  std::unique_ptr<LateStores> late_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<HostCounter> events_;
  std::vector<HostCounter> words_;  ///< see Word in host_target.cpp
  std::vector<HostCounter> reports_;
  std::vector<HostCounter> appended_;
  std::vector<HostCounter> taken_;
  std::vector<HostTaggedWord> queue_;
  std::vector<int> lengths_;
  std::vector<unsigned> launched_;
  std::vector<int> tokens_;
  std::vector<ProfileRecord> profile_;
  std::vector<unsigned> profiled_;
  Program<HostPlatform> program_{};
  std::vector<std::thread> threads_;
  std::atomic<int> running_{0};
  uint32_t next_epoch_ = 1;
  bool failed_ = false;
};

}  // namespace strata::megakernel
