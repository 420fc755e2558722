// The platform of the mega-kernel on the host (core/base.h): its threads are fibers of one thread of the host
// (superopt/codegen/device/strata_host_threads.h), 32 lanes to a warp as on a GPU, so memory is as it is and no order
// has to be asked for. What comes late on a GPU comes late here: bulk copies, at a look drawn from the order's seed.
// Part of the device code as text, after strata_host_bulk.h.
#pragma once

#include "megakernel/runtime/core/scheduler.h"
#include "megakernel/runtime/core/worker.h"
#include "megakernel/runtime/cuda/words.h"

// What the text of packing kernels asks of CUDA.
#define STRATA_KERNEL inline
#define __launch_bounds__(threads)
struct FiberIndex {
  long long x, y, z;
};
inline FiberIndex blockIdx;  ///< blocks that do not wait for each other run one after the other

namespace strata_device {
/// Kernels run one after the other.
inline void wait_for_previous_kernel() {}
}  // namespace strata_device

namespace strata::megakernel {

/// A kernel of the image, called with its arguments.
struct PackingKernel {
  const char* name;
  void (*run)(void* const* arguments);
};
template <class... Arguments, std::size_t... kIndex>
void call_with(void (*kernel)(Arguments...), void* const* arguments, std::index_sequence<kIndex...>) {
  kernel(static_cast<Arguments>(arguments[kIndex])...);
}
template <class... Arguments>
void call_with(void (*kernel)(Arguments...), void* const* arguments) {
  call_with(kernel, arguments, std::index_sequence_for<Arguments...>());
}

/// Numbers as the launch is told them: the memory's file, place and size; shared memory of a block, threads, blocks.
struct FiberLaunch {
  long long file, place, bytes, shared_bytes, threads, grid[3];
};
constexpr int kFiberLaunchNumbers = sizeof(FiberLaunch) / sizeof(long long);

/// One for each thread. `team`: the thread is one of compute's; else it is a role alone.
class FiberPlatform : public CudaWords {
 public:
  static constexpr unsigned kCheckInterval = 16;

  explicit FiberPlatform(bool team) : team_(team) {}

  using Handle = FiberPlatform;
  Handle handle() const { return *this; }

  // ---- Device memory, and words of the host

  unsigned load(const Counter& c) { return c.value; }
  void store(Counter& c, unsigned value) {
    c.value = value;
    strata_host::team.changed();
  }
  void acquire() {}
  void acquire_for_copies() {}
  void release_for_copies() {}
  void add_release(Counter& c, unsigned amount) { store(c, c.value + amount); }
  void store_release(Counter& c, unsigned value) { store(c, value); }
  unsigned add(Counter& c, unsigned amount) {
    const unsigned before = c.value;
    store(c, before + amount);
    return before;
  }
  unsigned compare_exchange(Counter& c, unsigned expected, unsigned desired) {
    const unsigned before = c.value;
    if (before == expected) store(c, desired);
    return before;
  }
  Tagged load_tagged(const TaggedWord& word) { return word.value; }
  void store_tagged(TaggedWord& word, const Tagged& value) {
    word.value = value;
    strata_host::team.changed();
  }
  // Another process reads and writes these.
  unsigned load_from_host(const Counter& c) { return __atomic_load_n(&c.value, __ATOMIC_ACQUIRE); }
  void release_to_host(Counter& c, unsigned value) { __atomic_store_n(&c.value, value, __ATOMIC_RELEASE); }
  void store_token(int* place, int token) { *place = token; }

  // ---- Shared memory

  void start(Barrier& b, unsigned arrivals) { strata_device::start_barrier(&b.word, static_cast<int>(arrivals)); }
  void arrive(Barrier& b, unsigned count) { strata_device::arrive(&b.word, static_cast<int>(count)); }
  void arrive_and_expect(Barrier& b, unsigned bytes) { strata_device::expect_bytes(&b.word, static_cast<int>(bytes)); }
  bool passed(Barrier& b, unsigned phase) { return strata_device::passed(&b.word, phase); }
  bool passed_yet(Barrier& b, unsigned phase) { return passed(b, phase); }
  /// One lane looks: all see the same memory.
  bool passed_together(Barrier& b, unsigned phase) {
    return share(leads_warp() ? static_cast<unsigned>(passed(b, phase)) : 0, 0) != 0;
  }
  void copy(void* to, const void* from, unsigned bytes, Barrier& b) {
    strata_device::load_bytes(to, from, static_cast<int>(bytes), &b.word);
  }
  /// There is no cache; what a GPU would refuse is found.
  void prefetch(const void* from, unsigned bytes) {
    if (bytes == 0 || bytes % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0)
      strata_host::fail("the cache is asked for " + std::to_string(bytes) + " bytes, or at a misaligned place");
  }
  unsigned peek(const Counter& c) { return c.value; }
  void post(Counter& c, unsigned value) { store(c, value); }

  // ---- The team

  int rank() const { return team_ ? strata_host::team.thread() : 0; }
  int size() const { return team_ ? kComputeThreads : 1; }
  int warp() const { return rank() / 32; }
  int warps() const { return team_ ? kComputeWarps : 1; }
  int lane() const { return rank() % 32; }
  int lanes() const { return team_ ? 32 : 1; }
  bool leads() const { return rank() == 0; }
  bool leads_warp() const { return lane() == 0; }
  static constexpr unsigned kReleasingLanes = 1;
  bool releases() const { return leads_warp(); }
  void meet_warp() {
    if (team_) strata_device::warp_barrier();
  }
  int first_lane(bool condition) {
    if (!team_) return condition ? 0 : -1;
    return *strata_host::exchange("first_lane", condition ? lane() : -1, [](int* lanes) {
      const int* const found = std::find_if(lanes, lanes + strata_host::kLanes, [](int lane) { return lane >= 0; });
      lanes[0] = found == lanes + strata_host::kLanes ? -1 : *found;
    });
  }
  unsigned share(unsigned value, int lane) { return team_ ? strata_device::shuffle(value, lane) : value; }
  void meet() {
    if (team_) strata_device::named_barrier(1, kComputeThreads);
  }
  bool any(bool condition) {
    if (!team_) return condition;
    // Of a block: what its threads have said since they last met here, and what they said then. Nobody is here again
    // before all have read it.
    struct Said {
      bool now, then;
    };
    static std::map<int, Said> said_by_blocks;
    strata_host::Team& team = strata_host::team;
    Said& said = said_by_blocks[team.block()];
    said.now |= condition;
    team.meet(team.barrier(1), "a barrier with a vote", kComputeThreads, [&] { said = {false, said.now}; });
    return said.then;
  }

  /// A round in which nothing happened counts as a millisecond, so that limits do not depend on the machine's speed.
  unsigned long long clock() { return (strata_host::team.idle_rounds() + 1) * 1'000'000; }
  unsigned long long now() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<unsigned long long>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
  }
  int multiprocessor(int block) { return block; }
  void pause() { strata_host::team.pause(); }

 private:
  bool team_;
};

}  // namespace strata::megakernel
