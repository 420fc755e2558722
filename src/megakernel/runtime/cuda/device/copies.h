// How constants come to shared memory, and the barriers that they count at: by bulk copies from Hopper on, by
// asynchronous copies of 16 bytes before (sm_80), which the loading thread issues itself. Each instruction is as the
// PTX ISA has it; part of the device code as text.
#pragma once

#include "megakernel/runtime/cuda/words.h"

namespace strata::megakernel {

STRATA_DEVICE unsigned shared_address(const void* place) {
  return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

/// An L2 policy of copies: what is loaded is used once.
STRATA_DEVICE unsigned long long used_once() {
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// Whether a phase of that parity is over, at once.
STRATA_DEVICE bool is_over(CudaBarrier& b, unsigned parity) {
  unsigned over;
  asm volatile(
      "{\n.reg .pred over;\nmbarrier.test_wait.parity.shared::cta.b64 over, [%1], %2;\nselp.u32 %0, 1, 0, over;\n}"
      : "=r"(over)
      : "r"(shared_address(&b)), "r"(parity)
      : "memory");
  return over != 0;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
/// By the thread that has started barriers, before others, and the copies of others, use them.
STRATA_DEVICE void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
}
/// Between loads and stores of device memory and the copies that read the same places.
STRATA_DEVICE void order_copies() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
STRATA_DEVICE void arrive_at(CudaBarrier& b, unsigned count) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&b)), "r"(count) : "memory");
}
/// One arrival, and so many bytes that the copy after it brings.
STRATA_DEVICE void expect_copy(CudaBarrier& b, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&b)), "r"(bytes)
               : "memory");
}
/// Whether a phase of that parity is over; it may wait for it a while.
STRATA_DEVICE bool wait_a_while(CudaBarrier& b, unsigned parity) {
  unsigned over;
  asm volatile(
      "{\n.reg .pred over;\nmbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\nselp.u32 %0, 1, 0, over;\n}"
      : "=r"(over)
      : "r"(shared_address(&b)), "r"(parity)
      : "memory");
  return over != 0;
}
/// Starts a copy that counts at the barrier. Places and bytes are multiples of 16.
STRATA_DEVICE void start_copy(void* to, const void* from, unsigned bytes, CudaBarrier& b, unsigned long long policy) {
  const unsigned place = shared_address(to);
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(place),
      "l"(from), "r"(bytes), "r"(shared_address(&b)), "l"(policy)
      : "memory");
}
/// Asks the second-level cache for what a copy will read.
STRATA_DEVICE void ask_for(const void* from, unsigned bytes, unsigned long long policy) {
  asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;" ::"l"(from), "r"(bytes), "l"(policy)
               : "memory");
}
#else
/// Barriers are published by the block's barrier alone, and copies are no proxy of their own.
STRATA_DEVICE void publish_barriers() {}
STRATA_DEVICE void order_copies() {}
/// An arrival counts once here.
STRATA_DEVICE void arrive_at(CudaBarrier& b, unsigned count) {
  for (unsigned n = 0; n < count; ++n) {
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(shared_address(&b))
                 : "memory");
  }
}
/// Nothing: barriers here do not count bytes, so the arrival is that of the copy after it, when it has landed.
STRATA_DEVICE void expect_copy(CudaBarrier&, unsigned) {}
/// At once: no instruction waits here.
STRATA_DEVICE bool wait_a_while(CudaBarrier& b, unsigned parity) { return is_over(b, parity); }
/// The barrier's arrival (noinc: one of those it expects) comes when all copies of this thread before it have landed.
STRATA_DEVICE void start_copy(void* to, const void* from, unsigned bytes, CudaBarrier& b, unsigned long long policy) {
  const unsigned place = shared_address(to);
  const auto* const bytes_from = static_cast<const unsigned char*>(from);
#pragma unroll 8
  for (unsigned at = 0; at < bytes; at += 16) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(place + at), "l"(bytes_from + at),
                 "l"(policy)
                 : "memory");
  }
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(&b)) : "memory");
}
STRATA_DEVICE void ask_for(const void* from, unsigned bytes, unsigned long long) {
  constexpr unsigned kLine = 128;  // bytes
  const auto* const bytes_from = static_cast<const unsigned char*>(from);
  for (unsigned at = 0; at < bytes; at += kLine)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(bytes_from + at) : "memory");
}
#endif

}  // namespace strata::megakernel
