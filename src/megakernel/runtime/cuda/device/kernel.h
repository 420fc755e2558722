// The mega-kernel itself: the roles of a worker in one block, and schedulers in the blocks after the workers'. Part of
// the device code as text, after the block functions of the image.
#pragma once

#include "megakernel/runtime/cuda/device/block.h"
#include "megakernel/runtime/cuda/device/platform.h"

/// Of kBlockThreads threads; a cooperative launch, since blocks wait for each other.
extern "C" __global__ void __launch_bounds__(strata::megakernel::kBlockThreads, 1)
    strata_megakernel(const __grid_constant__ strata::megakernel::Program<strata::megakernel::CudaPlatform> program,
                      unsigned scratch_bytes) {
  using namespace strata::megakernel;
  extern __shared__ __align__(1024) unsigned char memory[];
  const int block = static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  if (block >= program.workers) return run_scheduler_thread(program, block, thread);
  const WorkerMemory<CudaPlatform> worker = worker_memory(memory, program, scratch_bytes);
  if (thread == 0) {
    CudaPlatform platform(false);
    start_memory(platform, program, worker, kComputeWarps);
    publish_barriers();
  }
  __syncthreads();
  run_worker_thread<kProfile>(program, worker, block, thread);
}
