// The program that is a device on the host. A process of it is one launch: it maps the device's memory, a file that it
// inherits, to the place where pointers expect it, and calls a kernel in every thread of every block. kernels(), before
// this text, are the image's; kStepsName and run_steps are those of the mega-kernel (kernel.h) or of the graph
// (graph.h). Part of the device code as text.
#pragma once

#include "megakernel/fibers/device/kernel.h"

int main(int count, char** words) {
  using namespace strata::megakernel;
  FiberLaunch launch{};
  constexpr int kBefore = 2 + kFiberLaunchNumbers;
  if (count < kBefore) strata_host::fail("a launch that is no launch");
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody reads what it makes for a process that has ended
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
  if (name == kStepsName) {
    run_steps(arguments, launch);
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
