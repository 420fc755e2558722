// A block of a kernel that is an operator of the step: the same block functions, ring and tagged words as in the
// mega-kernel, without control, events and schedulers. What comes before is another kernel's, so all waits for other
// tasks are one wait for that kernel. Part of the device code as text, after the block functions of the image.
#pragma once

#include "megakernel/runtime/cuda/device/block.h"
#include "megakernel/runtime/cuda/graph_words.h"

namespace strata::megakernel {

/// A task as block functions see it. The function is part of its type, so a kernel has the code of one.
template <int kFunction>
struct GraphTask {
  struct Record {
    static constexpr int function = kFunction;
    long long coordinates[3];
  };
  Record record;
  void* const* arguments;

  STRATA_DEVICE GraphTask(const GraphLaunch& launch, int n)
      : record{{n % launch.grid[0], n / launch.grid[0] % launch.grid[1], n / launch.grid[0] / launch.grid[1]}},
        arguments(launch.arguments) {}
};

/// Begin and end of a kernel's tasks in one role. All steps have the same tasks, so each has its place among the
/// records of a step, and the last steps are kept. In place of the task a record has the multiprocessor.
template <bool kProfile, class Platform>
class GraphProfile {
 public:
  STRATA_DEVICE GraphProfile(Context<Platform>& c, const GraphLaunch& launch) : c_(c), launch_(launch) {}

  STRATA_DEVICE unsigned long long now() const {
    if constexpr (kProfile) return c_.platform.now();
    return 0;
  }
  /// Task n, when the epoch is known.
  STRATA_DEVICE void record(int n, unsigned long long begin, unsigned long long end) const {
    if constexpr (kProfile) {
      if (launch_.kept_steps == 0 || c_.left != Verdict::Ready) return;
      const auto steps = static_cast<unsigned>(launch_.kept_steps);
      const unsigned step = (static_cast<unsigned>(c_.role) - 1) * steps + c_.epoch % steps;
      const auto place = static_cast<unsigned>(launch_.first_record + n);
      c_.program.profile[static_cast<unsigned long long>(step) * static_cast<unsigned>(launch_.step_records) + place] =
          {c_.platform.multiprocessor(c_.index), c_.epoch, begin, end};
    }
  }

 private:
  Context<Platform>& c_;
  const GraphLaunch& launch_;
};

/// Takes epoch, and whether there is a step, from device memory: after the wait for the kernels before. What a step's
/// last kernel writes there, no other kernel of the step reads.
template <class Platform>
STRATA_DEVICE void begin_graph_step(Context<Platform>& c) {
  strata_device::wait_for_previous_kernel();
  const unsigned step = c.platform.load(*c.program.step);
  c.epoch = step >> 1;
  if ((step & 1u) != 0) c.left = Verdict::Stop;
}

/// What a block function's load sees. It loads constants before it waits for the kernels before, so it knows no epoch
/// until it asks for positions or history.
template <class Platform>
class GraphLoad {
 public:
  STRATA_DEVICE GraphLoad(Context<Platform>& c, LoadSide<Platform>& side) : c_(c), side_(side) {}
  STRATA_DEVICE void push(const void* from, unsigned bytes, unsigned stages = 1, unsigned stride = 0) {
    side_.push(from, bytes, stages, stride);
  }
  STRATA_DEVICE void wait_for_history() {
    if (waited_) return;
    waited_ = true;
    begin_graph_step(c_);
    c_.platform.acquire_for_copies();
  }
  STRATA_DEVICE int position(int sequence) {
    wait_for_history();
    return side_.position(sequence);
  }

 private:
  Context<Platform>& c_;
  LoadSide<Platform>& side_;
  bool waited_ = false;
};

/// What a block function's compute sees.
template <class Platform>
class GraphCompute : public ComputeSide<Platform> {
 public:
  STRATA_DEVICE GraphCompute(Context<Platform>& c, const WorkerMemory<Platform>& memory, const GraphState& state)
      : ComputeSide<Platform>(c, memory), c_(c), state_(state) {}
  STRATA_DEVICE void put_token(int index, int token) {
    const auto step = static_cast<unsigned long long>(c_.epoch - state_.first_epoch);
    c_.platform.store_token(c_.program.tokens + step * static_cast<unsigned>(c_.program.tokens_per_step) + index,
                            token);
  }

 private:
  Context<Platform>& c_;
  const GraphState& state_;
};

/// As events.h, end_step.
template <class Platform>
STRATA_DEVICE void end_graph_step(Context<Platform>& c, const GraphState& state, bool finished) {
  c.platform.release_to_host(*c.program.steps_done, c.epoch);
  const bool stop =
      finished || c.epoch == state.last_epoch || c.platform.load_from_host(*c.program.stop_requested) != 0;
  c.platform.store_release(*c.program.step, stop ? c.epoch * 2 + 1 : (c.epoch + 1) * 2);
}

template <int kFunction, bool kProfile, class Platform>
STRATA_DEVICE void run_graph_load(const Program<Platform>& program, const GraphLaunch& launch,
                                  const WorkerMemory<Platform>& memory, int block) {
  Platform platform(false);
  Context<Platform> c{platform, program, Role::Load, block, launch.first_task};
  LoadSide<Platform> side(c, memory);
  GraphLoad<Platform> load(c, side);
  const GraphProfile<kProfile, Platform> profile(c, launch);
  constexpr int kRecorded = kProfile ? 64 : 1;  // of the block's tasks: their epoch is known after the loads
  unsigned long long begin[kRecorded] = {}, end[kRecorded] = {};
  int count = 0;
  for (int n = block; n < launch.tasks; n += launch.blocks) {
    if (count < kRecorded) begin[count] = profile.now();
    side.begin_task();
    strata_device::load_of_task(GraphTask<kFunction>(launch, n), load);
    if (count < kRecorded) end[count] = profile.now();
    ++count;
  }
  // The step that the last kernel ends may have gone on by then, and that kernel loads nothing.
  if (kProfile && (launch.flags & kEndsStep) == 0) {
    load.wait_for_history();
    for (int n = 0; n < count && n < kRecorded; ++n) profile.record(block + n * launch.blocks, begin[n], end[n]);
  }
  side.drain();
}

template <int kFunction, bool kProfile, class Platform>
STRATA_DEVICE void run_graph_compute(const Program<Platform>& program, const GraphLaunch& launch,
                                     const WorkerMemory<Platform>& memory, int block) {
  Platform platform(true);
  Context<Platform> c{platform, program, Role::Compute, block, launch.first_task};
  begin_graph_step(c);
  if (c.left != Verdict::Ready) return;
  GraphCompute<Platform> side(c, memory, *launch.state);
  const GraphProfile<kProfile, Platform> profile(c, launch);
  for (int n = block; n < launch.tasks; n += launch.blocks) {
    const unsigned long long begin = profile.now();
    side.begin_task();
    strata_device::compute_of_task(GraphTask<kFunction>(launch, n), side);
    if ((launch.flags & kStoresForCopies) != 0) platform.release_for_copies();
    // All have stored, and are done with the scratch memory.
    if (platform.any(c.left != Verdict::Ready)) return;
    if (platform.leads()) profile.record(n, begin, profile.now());
    if ((launch.flags & kEndsStep) != 0 && platform.leads()) end_graph_step(c, *launch.state, side.finished());
  }
}

/// A thread of a kernel's block, when its barriers have been started and all of the block have met.
template <int kFunction, bool kProfile, class Platform>
STRATA_DEVICE void run_graph_thread(const Program<Platform>& program, const GraphLaunch& launch,
                                    const WorkerMemory<Platform>& memory, int block, int thread) {
  if (thread < kComputeThreads) {
    run_graph_compute<kFunction, kProfile>(program, launch, memory, block);
  } else if (thread == kLoadThread) {
    run_graph_load<kFunction, kProfile>(program, launch, memory, block);
  }
}

}  // namespace strata::megakernel
