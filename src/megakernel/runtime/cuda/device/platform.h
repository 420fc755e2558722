// The platform of a GPU (core/base.h) from Hopper on: mbarriers and bulk copies in shared memory, and device memory in
// which an order holds among the threads of the GPU (gpu scope), or for the host too (sys scope). Each instruction is
// as the PTX ISA has it; part of the device code as text.
#pragma once

#include "megakernel/runtime/core/scheduler.h"
#include "megakernel/runtime/core/worker.h"
#include "megakernel/runtime/cuda/words.h"

namespace strata::megakernel {

STRATA_DEVICE unsigned shared_address(const void* place) {
  return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

/// One for each thread. `team`: the thread is one of compute's; else it is a role alone.
class CudaPlatform : public CudaWords {
 public:
  static constexpr unsigned kCheckInterval = 1024;

  STRATA_DEVICE explicit CudaPlatform(bool team) : team_(team) {
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy_));
  }

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
    asm volatile("fence.acq_rel.gpu;\nfence.proxy.async.global;" ::: "memory");
  }
  STRATA_DEVICE void release_for_copies() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
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
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&b)), "r"(count) : "memory");
  }
  STRATA_DEVICE void arrive_and_expect(Barrier& b, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&b)), "r"(bytes)
                 : "memory");
  }
  STRATA_DEVICE bool passed(Barrier& b, unsigned phase) {
    unsigned over;
    asm volatile(
        "{\n.reg .pred over;\nmbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\nselp.u32 %0, 1, 0, over;\n}"
        : "=r"(over)
        : "r"(shared_address(&b)), "r"(phase & 1)
        : "memory");
    return over != 0;
  }
  /// Each lane looks, and so each has acquired when all have seen it.
  STRATA_DEVICE bool passed_yet(Barrier& b, unsigned phase) {
    unsigned over;
    asm volatile(
        "{\n.reg .pred over;\nmbarrier.test_wait.parity.shared::cta.b64 over, [%1], %2;\nselp.u32 %0, 1, 0, over;\n}"
        : "=r"(over)
        : "r"(shared_address(&b)), "r"(phase & 1)
        : "memory");
    return over != 0;
  }
  STRATA_DEVICE bool passed_together(Barrier& b, unsigned phase) { return __all_sync(~0u, passed(b, phase)) != 0; }
  STRATA_DEVICE void copy(void* to, const void* from, unsigned bytes, Barrier& b) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
            "r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(&b)), "l"(policy_)
        : "memory");
  }
  STRATA_DEVICE void prefetch(const void* from, unsigned bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;" ::"l"(from), "r"(bytes), "l"(policy_)
                 : "memory");
  }
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
  /// That a block runs on.
  STRATA_DEVICE int multiprocessor(int /*block*/) {
    int number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
  }
  STRATA_DEVICE void pause() {}

 private:
  bool team_;
  unsigned long long policy_;  ///< of copies: what is loaded is used once
};

using CudaLoad = LoadSide<CudaPlatform>;
using CudaCompute = ComputeSide<CudaPlatform>;

}  // namespace strata::megakernel
