// The platform of a GPU (core/base.h): mbarriers and copies in shared memory (copies.h), and device memory in which an
// order holds among the threads of the GPU (gpu scope), or for the host too (sys scope). Each instruction is as the PTX
// ISA has it; part of the device code as text.
#pragma once

#include "megakernel/runtime/core/scheduler.h"
#include "megakernel/runtime/core/worker.h"
#include "megakernel/runtime/cuda/device/copies.h"

namespace strata::megakernel {

/// One for each thread. `team`: the thread is one of compute's; else it is a role alone.
class CudaPlatform : public CudaWords {
 public:
  static constexpr unsigned kCheckInterval = 1024;

  STRATA_DEVICE explicit CudaPlatform(bool team) : team_(team), policy_(used_once()) {}

  using Handle = CudaPlatform;
  STRATA_DEVICE Handle handle() const { return *this; }

  // ---- Device memory

  STRATA_DEVICE unsigned load(const Counter& c) {
    unsigned value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(&c.value) : "memory");
    return value;
  }
  STRATA_DEVICE void store(Counter& c, unsigned value) {
    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(&c.value), "r"(value) : "memory");
  }
  STRATA_DEVICE void acquire() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
  STRATA_DEVICE void acquire_for_copies() {
    acquire();
    order_copies();
  }
  STRATA_DEVICE void release_for_copies() { order_copies(); }
  STRATA_DEVICE void add_release(Counter& c, unsigned amount) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(&c.value), "r"(amount) : "memory");
  }
  STRATA_DEVICE void store_release(Counter& c, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(&c.value), "r"(value) : "memory");
  }
  STRATA_DEVICE unsigned add(Counter& c, unsigned amount) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(&c.value), "r"(amount)
                 : "memory");
    return before;
  }
  STRATA_DEVICE unsigned compare_exchange(Counter& c, unsigned expected, unsigned desired) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(before)
                 : "l"(&c.value), "r"(expected), "r"(desired)
                 : "memory");
    return before;
  }
  /// ptxas splits a load of which only some words are used, though it is relaxed: the data would be read before the
  /// tag. So each word is made to depend on all, by the last, which is 0.
  STRATA_DEVICE Tagged load_tagged(const TaggedWord& word) {
    unsigned long long low, high;
    asm volatile("{\n.reg .b128 v;\nld.relaxed.gpu.global.b128 v, [%2];\nmov.b128 {%0, %1}, v;\n}"
                 : "=l"(low), "=l"(high)
                 : "l"(&word)
                 : "memory");
    const auto first = static_cast<unsigned>(low), second = static_cast<unsigned>(low >> 32);
    const auto tag = static_cast<unsigned>(high), zero = static_cast<unsigned>(high >> 32);
    return {{first ^ (second & zero), second ^ (first & zero)}, tag + zero, zero};
  }
  STRATA_DEVICE void store_tagged(TaggedWord& word, const Tagged& value) {
    const unsigned long long low = value.data[0] | static_cast<unsigned long long>(value.data[1]) << 32;
    const unsigned long long high = value.tag;  // unused: 0
    asm volatile("{\n.reg .b128 v;\nmov.b128 v, {%1, %2};\nst.relaxed.gpu.global.b128 [%0], v;\n}" ::"l"(&word),
                 "l"(low), "l"(high)
                 : "memory");
  }

  // ---- Words of the host

  STRATA_DEVICE unsigned load_from_host(const Counter& c) {
    unsigned value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(&c.value) : "memory");
    return value;
  }
  STRATA_DEVICE void release_to_host(Counter& c, unsigned value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(&c.value), "r"(value) : "memory");
  }
  STRATA_DEVICE void store_token(int* place, int token) { *place = token; }

  // ---- Shared memory

  STRATA_DEVICE void start(Barrier& b, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&b)), "r"(arrivals) : "memory");
  }
  STRATA_DEVICE void arrive(Barrier& b, unsigned count) {
#ifdef STRATA_EACH_LANE_RELEASES
    for (unsigned n = 0; n < count; ++n) arrive_at(b, 1);
#else
    arrive_at(b, count);
#endif
  }
  STRATA_DEVICE void arrive_and_expect(Barrier& b, unsigned bytes) { expect_copy(b, bytes); }
  STRATA_DEVICE bool passed(Barrier& b, unsigned phase) { return wait_a_while(b, phase & 1); }
  /// Each lane looks, and so each has acquired when all have seen it.
  STRATA_DEVICE bool passed_yet(Barrier& b, unsigned phase) { return is_over(b, phase & 1); }
  STRATA_DEVICE bool passed_together(Barrier& b, unsigned phase) { return __all_sync(~0u, passed(b, phase)) != 0; }
  STRATA_DEVICE void copy(void* to, const void* from, unsigned bytes, Barrier& b) {
    start_copy(to, from, bytes, b, policy_);
  }
  STRATA_DEVICE void prefetch(const void* from, unsigned bytes) { ask_for(from, bytes, policy_); }
  STRATA_DEVICE unsigned peek(const Counter& c) {
    unsigned value;
    asm volatile("ld.acquire.cta.shared::cta.u32 %0, [%1];" : "=r"(value) : "r"(shared_address(&c)) : "memory");
    return value;
  }
  STRATA_DEVICE void post(Counter& c, unsigned value) {
    asm volatile("st.release.cta.shared::cta.u32 [%0], %1;" ::"r"(shared_address(&c)), "r"(value) : "memory");
  }

  // ---- The team

  /// Read anew each time: strata_cuda.h, thread_now.
  STRATA_DEVICE int rank() const {
    unsigned thread = 0;
    if (team_) asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return static_cast<int>(thread % 1024);
  }
  STRATA_DEVICE int size() const { return team_ ? kComputeThreads : 1; }
  STRATA_DEVICE int warp() const { return rank() / 32; }
  STRATA_DEVICE int warps() const { return team_ ? kComputeWarps : 1; }
  STRATA_DEVICE int lane() const { return rank() % 32; }
  STRATA_DEVICE int lanes() const { return team_ ? 32 : 1; }
  STRATA_DEVICE bool leads() const { return rank() == 0; }
  STRATA_DEVICE bool leads_warp() const { return lane() == 0; }
  /// racecheck follows no order that goes through a warp's barrier to the lane that arrives for all. For it each lane
  /// arrives itself (compile_cuda_code).
#ifdef STRATA_EACH_LANE_RELEASES
  static constexpr unsigned kReleasingLanes = 32;
#else
  static constexpr unsigned kReleasingLanes = 1;
#endif
  STRATA_DEVICE bool releases() const { return static_cast<unsigned>(lane()) < kReleasingLanes; }
  STRATA_DEVICE void meet_warp() {
    if (team_) __syncwarp();
  }
  STRATA_DEVICE int first_lane(bool condition) {
    return team_ ? __ffs(static_cast<int>(__ballot_sync(~0u, condition))) - 1 : condition ? 0 : -1;
  }
  STRATA_DEVICE unsigned share(unsigned value, int lane) { return team_ ? __shfl_sync(~0u, value, lane) : value; }
  STRATA_DEVICE void meet() {
    if (!team_) return;
    __syncwarp();  // the barrier takes whole warps
    asm volatile("barrier.sync.aligned 1, %0;" ::"n"(kComputeThreads) : "memory");
  }
  STRATA_DEVICE bool any(bool condition) {
    if (!team_) return condition;
    __syncwarp();
    unsigned one;
    asm volatile(
        "{\n.reg .pred mine, one;\nsetp.ne.u32 mine, %1, 0;\nbarrier.red.or.pred.aligned one, 1, %2, mine;\n"
        "selp.u32 %0, 1, 0, one;\n}"
        : "=r"(one)
        : "r"(static_cast<unsigned>(condition)), "n"(kComputeThreads)
        : "memory");
    return one != 0;
  }

  STRATA_DEVICE unsigned long long clock() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
  }
  STRATA_DEVICE unsigned long long now() { return clock(); }
  /// That a block runs on.
  STRATA_DEVICE int multiprocessor(int /*block*/) {
    int number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
  }
  STRATA_DEVICE void pause() {}

 private:
  bool team_;
  unsigned long long policy_;  ///< of copies
};

using CudaLoad = LoadSide<CudaPlatform>;
using CudaCompute = ComputeSide<CudaPlatform>;

}  // namespace strata::megakernel
