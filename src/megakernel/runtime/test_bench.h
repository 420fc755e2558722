// One worker of the core on the host's platform, for tests of its parts.
#pragma once

#include <bit>
#include <thread>
#include <vector>

#include "megakernel/runtime/core/program.h"
#include "megakernel/runtime/host_platform.h"

namespace strata::megakernel {

/// A worker's shared memory and the words of a launch.
template <class Platform>
struct Bench {
  explicit Bench(unsigned ring_bytes, unsigned ring_stages = 8, unsigned window = 1u << 20, int warps = 1,
                 int lanes = 1)
      : team(warps, lanes),
        full(ring_stages),
        empty(ring_stages),
        listed(2),
        unlisted(2),
        list(2),
        stages(ring_stages),
        ring(ring_bytes),
        scratch(256) {
    program.workers = 1;
    program.ring_bytes = ring_bytes;
    program.ring_stages = ring_stages;
    program.ring_shift = static_cast<unsigned>(std::countr_zero(ring_stages));
    program.window_bytes = window;
    program.listed = 2;
    program.events = events.data();
    program.triggers = triggers.data();
    program.step = &step;
    program.abort = &abort;
    program.reports = reports.data();
    program.limit = 50'000'000;
    memory = {full.data(), empty.data(), listed.data(), unlisted.data(), list.data(),   &loaded,
              &ended,      running,      stages.data(), ring.data(),     scratch.data()};
    start_memory(platform, program, memory, static_cast<unsigned>(warps));
  }
  HostMachine machine;
  Platform platform{machine, 1};
  HostTeam team;
  std::vector<HostBarrier> full, empty, listed, unlisted;
  std::vector<Descriptor> list;
  std::vector<StageRecord> stages;
  std::vector<unsigned char> ring, scratch;
  HostCounter loaded, ended, running[2], step, abort;
  std::vector<HostCounter> events = std::vector<HostCounter>(4 * HostPlatform::kCounterStride);
  std::vector<int> triggers{3, 1, 2, 5};
  std::vector<HostCounter> reports = std::vector<HostCounter>(kWorkerRoles * kReportWords);
  Program<Platform> program{};
  WorkerMemory<Platform> memory{};

  HostCounter& event(int number) { return events[static_cast<size_t>(number * HostPlatform::kCounterStride)]; }
  /// Each thread of the team runs body(platform).
  template <class Body>
  void as_team(Body body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < team.warps * team.lanes; ++rank) {
      threads.emplace_back([&, rank] {
        Platform mine(machine, 10 + static_cast<uint64_t>(rank), &team, rank);
        body(mine);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

}  // namespace strata::megakernel
