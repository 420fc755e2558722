// The platform of the host (core/base.h): threads for roles, atomics for barriers, counters and tagged words. It can be
// made as late as a GPU may be: bulk copies and tagged words arrive later and in another order, and each
// synchronisation can be delayed at random. It also sees what a GPU would not: a barrier's waiter more than one phase
// away, and threads of a team that do not meet.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "megakernel/runtime/core/base.h"
#include "support/random.h"

namespace strata::megakernel {

struct HostCounter {
  std::atomic<uint32_t> value{0};
};

/// An mbarrier. One word: phases that are over (32 bits), arrivals to come (8), bytes to come (24).
class HostBarrier {
 public:
  void start(uint32_t arrivals);
  void arrive(uint32_t count = 1, uint32_t expected_bytes = 0);
  void complete(uint32_t bytes);
  /// Phases that are over; acquires.
  uint32_t phases() const { return static_cast<uint32_t>(word_.load(std::memory_order_acquire) >> 32); }

 private:
  void change(uint32_t arrivals, uint32_t expected, uint32_t landed);
  std::atomic<uint64_t> word_{0};
  uint32_t arrivals_ = 1;
};

struct HostTaggedWord {
  alignas(16) std::atomic<Tagged> value{Tagged{}};
};

/// Executes bulk copies and stores of tagged words late: on its own thread, one of those that wait, at random, but what
/// goes to one place in order.
class LateStores {
 public:
  explicit LateStores(uint64_t seed);
  ~LateStores();
  void copy(void* to, const void* from, size_t bytes, HostBarrier& barrier);
  void store(HostTaggedWord& to, const Tagged& word);

 private:
  struct Job {
    void* to;
    const void* from;
    size_t bytes;
    HostBarrier* barrier;  ///< null: a tagged word
    Tagged word;
  };
  void add(const Job& job);
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> jobs_;
  bool ended_ = false;
  Random random_;
  std::thread thread_;
};

/// What the threads of a kernel share.
struct HostMachine {
  LateStores* late = nullptr;            ///< null: copies and tagged words arrive at once
  bool delays = false;                   ///< at each synchronisation, sometimes
  const HostCounter* lost = nullptr;     ///< a fault: of this counter's signals,
  std::atomic<int> signals_to_lose{0};   ///< the one after so many; 0: none
  std::atomic<bool> phase_error{false};  ///< some waiter was more than one phase away from its barrier
  std::chrono::nanoseconds meet_limit{std::chrono::seconds(30)};
  std::atomic<bool> team_error{false};  ///< some did not meet within the limit, or met for different things
  std::atomic<int> releases_for_copies{0};
};

/// Threads that meet, again and again.
class HostGroup {
 public:
  explicit HostGroup(int size) : size_(size), said_(static_cast<size_t>(2 * size)) {}
  /// Until all call it: what each of them says, by rank. `kind` is the same in all. After a team_error it waits for
  /// nobody.
  template <class Use>
  void meet(HostMachine& machine, int rank, uint32_t kind, uint32_t value, Use use) {
    const uint32_t generation = generation_.load(std::memory_order_acquire);
    auto* const said = &said_[(generation & 1u) * static_cast<size_t>(size_)];
    said[rank].store(uint64_t{kind} << 32 | value, std::memory_order_relaxed);
    wait(machine, generation);
    for (int other = 0; other < size_; ++other) {
      const uint64_t word = said[other].load(std::memory_order_relaxed);
      if (word >> 32 != kind) machine.team_error.store(true, std::memory_order_relaxed);
      use(other, static_cast<uint32_t>(word));
    }
  }

 private:
  void wait(HostMachine& machine, uint32_t generation);
  int size_;
  std::atomic<int> arrived_{0};
  std::atomic<uint32_t> generation_{0};
  std::vector<std::atomic<uint64_t>> said_;  ///< by turn and rank
};

/// The team of a worker's compute: `warps` of `lanes` threads each.
struct HostTeam {
  HostTeam(int warp_count, int lane_count) : warps(warp_count), lanes(lane_count), all(warps * lanes) {
    for (int w = 0; w < warps; ++w) of_warp.push_back(std::make_unique<HostGroup>(lanes));
  }
  int warps;
  int lanes;
  HostGroup all;
  std::vector<std::unique_ptr<HostGroup>> of_warp;
};

/// One for each thread. After a team_error each thread of a team goes on alone and arrives nowhere, so that the kernel
/// ends at the limit of some wait.
class HostPlatform {
 public:
  using Handle = HostPlatform&;
  Handle handle() { return *this; }

  using Counter = HostCounter;
  using Barrier = HostBarrier;
  using TaggedWord = HostTaggedWord;
  static constexpr unsigned kCheckInterval =
      64;  // a poll gives the processor away, so it takes as long as 1024 on a GPU
  static constexpr int kCounterStride = 2;

  /// `team`: null for a thread alone.
  HostPlatform(HostMachine& machine, uint64_t seed, HostTeam* team = nullptr, int rank = 0)
      : machine_(machine), random_(seed), team_(team), rank_(rank) {}

  unsigned load(const Counter& c);
  void store(Counter& c, unsigned value) { c.value.store(value, std::memory_order_relaxed); }
  void acquire();
  void acquire_for_copies() { acquire(); }
  void release_for_copies() { machine_.releases_for_copies.fetch_add(1, std::memory_order_relaxed); }
  void add_release(Counter& c, unsigned amount);
  void store_release(Counter& c, unsigned value) {
    delay();
    c.value.store(value, std::memory_order_release);
  }
  unsigned add(Counter& c, unsigned amount) {
    delay();
    return c.value.fetch_add(amount, std::memory_order_acq_rel);
  }
  unsigned compare_exchange(Counter& c, unsigned expected, unsigned desired) {
    c.value.compare_exchange_strong(expected, desired, std::memory_order_acq_rel);
    return expected;
  }
  Tagged load_tagged(const TaggedWord& w) { return w.value.load(std::memory_order_relaxed); }
  void store_tagged(TaggedWord& w, const Tagged& value);
  unsigned load_from_host(const Counter& c) { return c.value.load(std::memory_order_relaxed); }
  void release_to_host(Counter& c, unsigned value) { store_release(c, value); }
  void store_token(int* place, int token) { *place = token; }

  void start(Barrier& b, unsigned arrivals) { b.start(arrivals); }
  void arrive(Barrier& b, unsigned count) {
    delay();
    if (!is_broken()) b.arrive(count);
  }
  void arrive_and_expect(Barrier& b, unsigned bytes) {
    delay();
    b.arrive(1, bytes);
  }
  bool passed(Barrier& b, unsigned phase);
  bool passed_yet(Barrier& b, unsigned phase) { return passed(b, phase); }
  /// The first lane looks.
  bool passed_together(Barrier& b, unsigned phase) { return share(leads_warp() && passed(b, phase) ? 1 : 0, 0) != 0; }
  void copy(void* to, const void* from, unsigned bytes, Barrier& b);
  void prefetch(const void*, unsigned) {}  // there is no cache to ask
  unsigned peek(const Counter& c) { return c.value.load(std::memory_order_acquire); }
  void post(Counter& c, unsigned value) {
    delay();
    c.value.store(value, std::memory_order_release);
  }

  int rank() const { return rank_; }
  int size() const { return warps() * lanes(); }
  int warp() const { return rank_ / lanes(); }
  int warps() const { return team_ == nullptr ? 1 : team_->warps; }
  int lane() const { return rank_ % lanes(); }
  int lanes() const { return team_ == nullptr ? 1 : team_->lanes; }
  bool leads() const { return rank_ == 0; }
  bool leads_warp() const { return lane() == 0 || is_broken(); }
  static constexpr unsigned kReleasingLanes = 1;
  bool releases() const { return leads_warp(); }
  void meet_warp();
  int first_lane(bool condition);
  unsigned share(unsigned value, int lane);
  void meet();
  bool any(bool condition);

  unsigned long long clock();
  unsigned long long now() { return clock(); }
  void pause() { std::this_thread::yield(); }

 private:
  void delay();
  bool is_broken() const { return team_ != nullptr && machine_.team_error.load(std::memory_order_relaxed); }

  HostMachine& machine_;
  Random random_;
  HostTeam* team_;
  int rank_;
  std::array<const Counter*, 16> loaded_{};  ///< since the last acquire
  size_t loads_ = 0;
};

}  // namespace strata::megakernel
