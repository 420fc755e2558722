// The mega-kernel itself: the roles of a worker in one block, and schedulers in the blocks after the workers'. Part of
// the device code as text, after the block functions of the image: load_task and compute_task.
#pragma once

#include "megakernel/runtime/cuda/device/platform.h"

namespace strata::megakernel {

struct CudaFunctions {
  STRATA_DEVICE void load(const Descriptor& task, CudaLoad& side) { load_task(task, side); }
  STRATA_DEVICE void compute(const Descriptor& task, CudaCompute& side) { compute_task(task, side); }
};

STRATA_DEVICE WorkerMemory<CudaPlatform> worker_memory(unsigned char* memory, const SharedLayout& at) {
  auto* const counters = reinterpret_cast<CudaCounter*>(memory + at.counters);
  WorkerMemory<CudaPlatform> worker{};
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

}  // namespace strata::megakernel

/// Of kBlockThreads threads; a cooperative launch, since blocks wait for each other.
extern "C" __global__ void __launch_bounds__(strata::megakernel::kBlockThreads, 1)
    strata_megakernel(const __grid_constant__ strata::megakernel::Program<strata::megakernel::CudaPlatform> program,
                      unsigned scratch_bytes) {
  using namespace strata::megakernel;
  extern __shared__ __align__(1024) unsigned char memory[];
  const int block = static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  if (block >= program.workers) {
    const int scheduler = (block - program.workers) * kBlockSchedulers + thread / 32;
    if (thread % 32 != 0 || thread / 32 >= kBlockSchedulers || scheduler >= program.schedulers) return;
    CudaPlatform platform(false);
    run_schedule(platform, program, scheduler);
    return;
  }
  const WorkerMemory<CudaPlatform> worker = worker_memory(
      memory,
      shared_layout(program.ring_bytes, program.ring_stages, static_cast<unsigned>(program.listed), scratch_bytes));
  if (thread == 0) {
    CudaPlatform platform(false);
    start_memory(platform, program, worker, kComputeWarps);
    // Before others, and the bulk copies of others, use the barriers.
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
  }
  __syncthreads();
  CudaFunctions functions;
  if (thread < kComputeThreads) {
    CudaPlatform platform(true);
    run_compute<kProfile>(platform, program, worker, block, functions);
  } else if (thread == kLoadThread) {
    CudaPlatform platform(false);
    run_load<kProfile>(platform, program, worker, block, functions);
  } else if (thread == kControlThread) {
    CudaPlatform platform(false);
    run_control(platform, program, worker, block);
  }
}
