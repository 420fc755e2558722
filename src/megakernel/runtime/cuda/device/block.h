// A block of the mega-kernel: a worker's shared memory, and which thread has which role. The same on a GPU and on the
// host's fibers (megakernel/fibers). Part of the device code as text, after the block functions of the image: load_task
// and compute_task.
#pragma once

#include "megakernel/runtime/core/scheduler.h"
#include "megakernel/runtime/core/worker.h"
#include "megakernel/runtime/cuda/words.h"

namespace strata::megakernel {

template <class Platform>
struct ImageFunctions {
  STRATA_DEVICE void load(const Descriptor& task, LoadSide<Platform>& side) { load_task(task, side); }
  STRATA_DEVICE void compute(const Descriptor& task, ComputeSide<Platform>& side) { compute_task(task, side); }
};

template <class Platform>
STRATA_DEVICE WorkerMemory<Platform> worker_memory(unsigned char* memory, const SharedLayout& at) {
  auto* const counters = reinterpret_cast<CudaCounter*>(memory + at.counters);
  WorkerMemory<Platform> worker{};
  worker.full = reinterpret_cast<CudaBarrier*>(memory + at.full);
  worker.empty = reinterpret_cast<CudaBarrier*>(memory + at.empty);
  worker.listed = reinterpret_cast<CudaBarrier*>(memory + at.listed);
  worker.unlisted = reinterpret_cast<CudaBarrier*>(memory + at.unlisted);
  worker.list = reinterpret_cast<Descriptor*>(memory + at.list);
  worker.loaded = counters;
  worker.ended = counters + 1;
  worker.running = counters + 2;
  worker.stages = reinterpret_cast<StageRecord*>(memory + at.stages);
  worker.ring = memory + at.ring;
  worker.scratch = memory + at.scratch;
  return worker;
}
template <class Platform>
STRATA_DEVICE WorkerMemory<Platform> worker_memory(unsigned char* memory, const Program<Platform>& program,
                                                   unsigned scratch_bytes) {
  return worker_memory<Platform>(memory, shared_layout(program.ring_bytes, program.ring_stages,
                                                       static_cast<unsigned>(program.listed), scratch_bytes));
}

/// A thread of a block after the workers' blocks.
template <class Platform>
STRATA_DEVICE void run_scheduler_thread(const Program<Platform>& program, int block, int thread) {
  const int scheduler = (block - program.workers) * kBlockSchedulers + thread / 32;
  if (thread % 32 != 0 || thread / 32 >= kBlockSchedulers || scheduler >= program.schedulers) return;
  Platform platform(false);
  run_schedule(platform, program, scheduler);
}

/// A thread of a worker's block, when its barriers have been started and all of the block have met.
template <bool kProfiled, class Platform>
STRATA_DEVICE void run_worker_thread(const Program<Platform>& program, const WorkerMemory<Platform>& worker, int block,
                                     int thread) {
  ImageFunctions<Platform> functions;
  if (thread < kComputeThreads) {
    Platform platform(true);
    run_compute<kProfiled>(platform, program, worker, block, functions);
  } else if (thread == kLoadThread) {
    Platform platform(false);
    run_load<kProfiled>(platform, program, worker, block, functions);
  } else if (thread == kControlThread) {
    Platform platform(false);
    run_control<kProfiled>(platform, program, worker, block);
  }
}

}  // namespace strata::megakernel
