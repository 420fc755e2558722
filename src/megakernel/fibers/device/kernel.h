// The mega-kernel of a program that is its device on the host (main.h). Part of the device code as text.
#pragma once

#include "megakernel/fibers/device/platform.h"
#include "megakernel/runtime/cuda/device/block.h"

namespace strata::megakernel {

inline void run_megakernel(unsigned char* memory, const Program<FiberPlatform>& program, unsigned scratch_bytes) {
  const int block = strata_host::team.block();
  const int thread = strata_host::team.thread();
  if (block >= program.workers) return run_scheduler_thread(program, block, thread);
  const WorkerMemory<FiberPlatform> worker = worker_memory(memory, program, scratch_bytes);
  if (thread == 0) {
    FiberPlatform platform(false);
    start_memory(platform, program, worker, kComputeWarps);
  }
  strata_device::barrier();
  run_worker_thread<kProfile>(program, worker, block, thread);
}

constexpr const char* kStepsName = "strata_megakernel";

/// A launch, whose arguments are the program and the bytes of scratch memory.
inline void run_steps(const std::vector<void*>& arguments, const FiberLaunch& launch) {
  const auto& program = *static_cast<const Program<FiberPlatform>*>(arguments.at(0));
  const auto scratch_bytes = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(arguments.at(1)));
  strata_device::launch(
      launch.grid[0], 1, 1, 1, launch.threads, launch.shared_bytes, true,
      [&](long long, long long, long long, unsigned char* memory) { run_megakernel(memory, program, scratch_bytes); });
}

}  // namespace strata::megakernel
