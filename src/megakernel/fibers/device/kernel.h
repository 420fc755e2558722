// The program that is the mega-kernel's device on the host. A process of it is one launch: it maps the device's memory,
// a file that it inherits, to the place where pointers expect it, and calls a kernel in every thread of every block.
// kernels(), before this text, are the image's; strata_megakernel is here. Part of the device code as text.
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

/// Numbers as the launch is told them: the memory's file, place and size; shared memory of a block, threads, blocks.
struct FiberLaunch {
  long long file, place, bytes, shared_bytes, threads, grid[3];
};
constexpr int kFiberLaunchNumbers = sizeof(FiberLaunch) / sizeof(long long);

}  // namespace strata::megakernel

int main(int count, char** words) {
  using namespace strata::megakernel;
  FiberLaunch launch{};
  constexpr int kBefore = 2 + kFiberLaunchNumbers;
  if (count < kBefore) strata_host::fail("a launch that is no launch");
  long long numbers[kFiberLaunchNumbers];
  for (int n = 0; n < kFiberLaunchNumbers; ++n) numbers[n] = std::strtoll(words[2 + n], nullptr, 10);
  std::memcpy(&launch, numbers, sizeof launch);
  void* const place = reinterpret_cast<void*>(launch.place);
  if (mmap(place, static_cast<std::size_t>(launch.bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
           static_cast<int>(launch.file), 0) != place)
    strata_host::fail("the device's memory cannot be mapped");
  std::vector<void*> arguments;
  for (int n = kBefore; n < count; ++n)
    arguments.push_back(reinterpret_cast<void*>(std::strtoll(words[n], nullptr, 10)));
  const std::string name = words[1];
  if (name == "strata_megakernel") {
    const auto& program = *static_cast<const Program<FiberPlatform>*>(arguments.at(0));
    const auto scratch_bytes = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(arguments.at(1)));
    strata_device::launch(launch.grid[0], 1, 1, 1, launch.threads, launch.shared_bytes, true,
                          [&](long long, long long, long long, unsigned char* memory) {
                            run_megakernel(memory, program, scratch_bytes);
                          });
    std::_Exit(0);  // the system frees the fibers' stacks faster
  }
  for (const PackingKernel& kernel : kernels()) {
    if (name != kernel.name) continue;
    strata_device::launch(launch.grid[0], launch.grid[1], launch.grid[2], 1, launch.threads, launch.shared_bytes, false,
                          [&](long long x, long long y, long long z, unsigned char*) {
                            blockIdx = {x, y, z};
                            kernel.run(arguments.data());
                          });
    std::_Exit(0);
  }
  strata_host::fail("no kernel " + name);
}
