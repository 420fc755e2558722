// The kernels of a step's graph on the host, in a program that is their device (main.h): one after the other, and the
// blocks of each one after the other, since none waits for another. Part of the device code as text.
#pragma once

#include "megakernel/fibers/device/platform.h"
#include "megakernel/runtime/cuda/device/graph.h"

namespace strata::megakernel {

template <int kFunction>
void run_graph(unsigned char* memory, const Program<FiberPlatform>& program, const GraphLaunch& launch, int block) {
  const int thread = strata_host::team.thread();
  const WorkerMemory<FiberPlatform> worker =
      worker_memory<FiberPlatform>(memory, graph_layout(launch, program.ring_stages));
  if (thread == 0) {
    FiberPlatform platform(false);
    start_memory(platform, program, worker, kComputeWarps);
  }
  strata_device::barrier();
  run_graph_thread<kFunction, kProfile>(program, launch, worker, block, thread);
}

template <std::size_t... kFunction>
void run_graph_of(int function, unsigned char* memory, const Program<FiberPlatform>& program, const GraphLaunch& launch,
                  int block, std::index_sequence<kFunction...>) {
  (void)((function == static_cast<int>(kFunction) &&
          (run_graph<static_cast<int>(kFunction)>(memory, program, launch, block), true)) ||
         ...);
}

constexpr const char* kStepsName = "strata_graph";

/// All steps of a launch. Its arguments: the program; the graph's launches, and how many there are.
inline void run_steps(const std::vector<void*>& arguments, const FiberLaunch& steps) {
  const auto& of_steps = *static_cast<const Program<FiberPlatform>*>(arguments.at(0));
  const auto* const launches = static_cast<const GraphLaunch*>(arguments.at(1));
  const auto count = reinterpret_cast<std::uintptr_t>(arguments.at(2));
  while ((of_steps.step->value & 1u) == 0 && of_steps.abort->value == 0) {
    for (std::uintptr_t n = 0; n < count; ++n) {
      const GraphLaunch& launch = launches[n];
      const Program<FiberPlatform> program = graph_program(of_steps, launch);
      strata_device::launch(launch.blocks, 1, 1, 1, steps.threads, graph_layout(launch, program.ring_stages).bytes,
                            false, [&](long long block, long long, long long, unsigned char* memory) {
                              run_graph_of(launch.function, memory, program, launch, static_cast<int>(block),
                                           std::make_index_sequence<kGraphFunctions>());
                            });
    }
  }
}

}  // namespace strata::megakernel
