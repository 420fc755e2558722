// What the kernels of a step's graph do: strata_graph_N, for each block function N, calls run_graph<N>. Part of the
// device code as text, before those entries.
#pragma once

#include "megakernel/runtime/cuda/device/graph.h"
#include "megakernel/runtime/cuda/device/platform.h"

namespace strata::megakernel {

/// The program's ring is the kernel's. By all threads of a block of kGraphThreads.
template <int kFunction>
STRATA_DEVICE void run_graph(const Program<CudaPlatform>& program, const GraphLaunch& launch) {
  extern __shared__ __align__(1024) unsigned char memory[];
  // The next kernel's blocks may start, and load constants, as soon as all of this kernel's have started.
  strata_device::let_next_kernel_start();
  const int thread = static_cast<int>(threadIdx.x);
  const WorkerMemory<CudaPlatform> worker =
      worker_memory<CudaPlatform>(memory, graph_layout(launch, program.ring_stages));
  if (thread == 0) {
    CudaPlatform platform(false);
    start_memory(platform, program, worker, kComputeWarps);
    publish_barriers();
  }
  __syncthreads();
  run_graph_thread<kFunction, kProfile>(program, launch, worker, static_cast<int>(blockIdx.x), thread);
}

}  // namespace strata::megakernel
