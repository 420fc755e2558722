// The platform of the host (core/base.h): threads for roles, atomics for barriers, counters and tagged words. It can be
// made as late as a GPU may be: bulk copies and tagged words arrive later and in another order, and each
// synchronisation can be delayed at random. It also sees what a GPU would not: a barrier's waiter more than one phase
// away.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstring>
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
  void arrive(uint32_t expected_bytes = 0);
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
};

/// One for each thread: all teams have one thread.
class HostPlatform {
 public:
  using Counter = HostCounter;
  using Barrier = HostBarrier;
  using TaggedWord = HostTaggedWord;
  static constexpr unsigned kCheckInterval =
      64;  // a poll gives the processor away, so it takes as long as 1024 on a GPU
  static constexpr int kCounterStride = 1;

  HostPlatform(HostMachine& machine, uint64_t seed) : machine_(machine), random_(seed) {}

  unsigned load(const Counter& c) { return c.value.load(std::memory_order_relaxed); }
  void store(Counter& c, unsigned value) { c.value.store(value, std::memory_order_relaxed); }
  void acquire(const Counter& c) { static_cast<void>(c.value.load(std::memory_order_acquire)); }
  void acquire_for_copies(const Counter& c) { acquire(c); }
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
  void store_token(int* place, int token) { *place = token; }

  void start(Barrier& b, unsigned arrivals) { b.start(arrivals); }
  void arrive(Barrier& b) {
    delay();
    b.arrive();
  }
  void arrive_and_expect(Barrier& b, unsigned bytes) {
    delay();
    b.arrive(bytes);
  }
  bool passed(Barrier& b, unsigned phase);
  void copy(void* to, const void* from, unsigned bytes, Barrier& b);
  unsigned peek(const Counter& c) { return c.value.load(std::memory_order_acquire); }
  void post(Counter& c, unsigned value) {
    delay();
    c.value.store(value, std::memory_order_release);
  }

  int rank() const { return 0; }
  int size() const { return 1; }
  bool leads() const { return true; }
  bool leads_warp() const { return true; }
  void meet_warp() {}
  void meet() {}
  bool any(bool condition) { return condition; }

  unsigned long long clock();
  void pause() { std::this_thread::yield(); }

 private:
  void delay();

  HostMachine& machine_;
  Random random_;
};

}  // namespace strata::megakernel
