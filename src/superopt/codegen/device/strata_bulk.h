// Hopper's bulk copies: the tensor memory accelerator (TMA) moves boxes of tensors to the shared memory of one block or
// of several blocks of a cluster, and counts the bytes at a barrier in shared memory (mbarrier). From sm_90.
// strata_host_bulk.h has the same for a host compiler. Behind them, for both: rings of slots that tiles come through.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
namespace strata_device {

/// A tensor in device memory as TMA sees it; the driver fills it in (cuTensorMapEncodeTiled).
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

/// Counts arrivals and bytes; its phase ends when all that were expected have come, and the next one begins.
using Barrier = unsigned long long;

/// Four warps together leave registers to others, and take them: each thread has this many from here on.
template <int kRegisters>
STRATA_DEVICE void leave_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
STRATA_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

STRATA_DEVICE unsigned shared_address(const void* place) {
  return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

STRATA_DEVICE void start_barrier(Barrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
/// Before others, TMA among them, use barriers that this thread started.
STRATA_DEVICE void show_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
}
/// Arrives, and lets the phase last until this many bytes have come.
STRATA_DEVICE void expect_bytes(Barrier* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
/// Arrives at a barrier of this block, or at that barrier of another block of the cluster.
STRATA_DEVICE void arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
STRATA_DEVICE void arrive_at(Barrier* barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}
/// Waits for the end of the phase of that parity; the first one has parity 0.
STRATA_DEVICE void wait(Barrier* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

/// Starts the copy of this many bytes, a multiple of 16; they count at `barrier`.
STRATA_DEVICE void load_bytes(void* to, const void* from, int bytes, Barrier* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

#define STRATA_BOX(rank, places, ...)                                                                           \
  if constexpr (kShared) {                                                                                      \
    asm volatile("cp.async.bulk.tensor." rank                                                                   \
                 "d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {" places \
                 "}], [%2], %3;" ::"r"(shared_address(to)),                                                     \
                 "l"(map), "r"(shared_address(barrier)), "h"(static_cast<unsigned short>(blocks)), __VA_ARGS__  \
                 : "memory");                                                                                   \
  } else {                                                                                                      \
    asm volatile("cp.async.bulk.tensor." rank                                                                   \
                 "d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {" places                    \
                 "}], [%2];" ::"r"(shared_address(to)),                                                         \
                 "l"(map), "r"(shared_address(barrier)), "h"(static_cast<unsigned short>(blocks)), __VA_ARGS__  \
                 : "memory");                                                                                   \
  }
/// Starts the copy of the box at a place of the tensor, innermost dimension first, to `to`; its bytes count at
/// `barrier`. kShared: to the same place, and for the same barrier, of every block of the cluster whose bit is set.
template <bool kShared, int kRank>
STRATA_DEVICE void load_box(void* to, const TensorMap* map, Barrier* barrier, int blocks, const int (&at)[kRank]) {
  if constexpr (kRank == 1) {
    STRATA_BOX("1", "%4", "r"(at[0]))
  } else if constexpr (kRank == 2) {
    STRATA_BOX("2", "%4, %5", "r"(at[0]), "r"(at[1]))
  } else if constexpr (kRank == 3) {
    STRATA_BOX("3", "%4, %5, %6", "r"(at[0]), "r"(at[1]), "r"(at[2]))
  } else if constexpr (kRank == 4) {
    STRATA_BOX("4", "%4, %5, %6, %7", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]))
  } else {
    STRATA_BOX("5", "%4, %5, %6, %7, %8", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]))
  }
}
#undef STRATA_BOX

}  // namespace strata_device
#endif

namespace strata_device {

/// Slots of shared memory that tiles come through in order: each is filled, used, and filled again. Barriers say when a
/// slot's tiles have come (full) and when all are done with them (empty). They are started once in a kernel; who fills
/// the slots and who uses them have a Ring each, and a call goes on where the one before it ended.
struct Ring {
  unsigned char* slots;
  Barrier* full;
  Barrier* empty;
  int slot;   ///< the next one
  int phase;  ///< 0 or 1: parity of its phase
};
/// A place for tiles that stay as long as a call lasts. Nobody waits for `empty` where it is null.
struct Page {
  unsigned char* memory;
  Barrier* full;
  Barrier* empty;
  int phase;
};

/// Behind `count` slots that were filled, or used.
template <int kSlots>
STRATA_DEVICE void advance(Ring& ring, int count) {
  const int next = ring.slot + count;
  ring.phase ^= next / kSlots & 1;
  ring.slot = next % kSlots;
}

/// The same as block functions see it that do not know what their ring is: packed constants come through it. A
/// mega-kernel's ring (megakernel/runtime/core/ring.h) has these members too.
template <int kSlots, int kSlotBytes>
struct SlotRing : Ring {
  static constexpr bool kSharesMemory = true;  ///< with what groups leave for each other after the loop
  /// One thread fills the next slot, when it is empty.
  STRATA_DEVICE void push(const unsigned char* from, int bytes) {
    wait(empty + slot, phase ^ 1);  // slots begin empty
    expect_bytes(full + slot, bytes);
    load_bytes(slots + slot * kSlotBytes, from, bytes, full + slot);
    advance(1, bytes);
  }
  /// The n-th slot from here on, filled. The calling warp waits.
  STRATA_DEVICE const unsigned char* stage(int n, int) {
    wait(full + (slot + n) % kSlots, phase ^ ((slot + n) / kSlots & 1));
    return slots + (slot + n) % kSlots * kSlotBytes;
  }
  /// The calling warp, one of `warps`, is done with it.
  STRATA_DEVICE void release(int n, int) {
    warp_barrier();  // all lanes are
    if (lane() == 0) arrive(empty + (slot + n) % kSlots);
  }
  /// Behind `count` slots.
  STRATA_DEVICE void advance(int count, int) { strata_device::advance<kSlots>(*this, count); }
};

/// Fills so many slots, one after the other, with as many bytes each, which lie `stride` bytes apart. A mega-kernel has
/// another one.
template <int kSlots, int kSlotBytes>
STRATA_DEVICE void push_stages(SlotRing<kSlots, kSlotBytes>& ring, const unsigned char* from, int stages, int bytes,
                               int64 stride) {
  for (int n = 0; n < stages; ++n, from += stride) ring.push(from, bytes);
}

/// How tiles are brought from what a tensor is; a mega-kernel has others than pointers.
template <class Shared, int64 kRowStride, int64 kBatchStride, class From>
struct Brought {
  static constexpr bool kOneByOne = true;
};

/// Brings a tile of device memory, as copy_tile does; what other threads brought is there after wait_copies and a
/// meeting.
template <class Shared, int kBytes, int kThreads, int64 kRowStride, int64 kBatchStride, class T>
STRATA_DEVICE void bring_tile(unsigned char* to, const T* from, int rank) {
  copy_tile<Shared, kBytes, kThreads, kRowStride, kBatchStride>(to, from, rank);
}
/// The tiles of iterations first, first + kGroups, … of `iterations`, at most kCount; each lies kStride bytes after the
/// one before. from(iteration) is where one begins.
template <class Shared, int kBytes, int kThreads, int64 kRowStride, int64 kBatchStride, int kGroups, int kStride,
          int kCount, class From>
STRATA_DEVICE void bring_tiles(unsigned char* to, const From& from, int first, int iterations, int rank) {
  using Source = Brought<Shared, kRowStride, kBatchStride, decltype(from(0))>;
  if constexpr (Source::kOneByOne) {
#pragma unroll 1
    for (int iteration = first; iteration < iterations; iteration += kGroups, to += kStride)
      bring_tile<Shared, kBytes, kThreads, kRowStride, kBatchStride>(to, from(iteration), rank);
  } else {
    Source::template bring<kThreads, kGroups, kStride, kCount>(to, from, first, iterations, rank);
  }
}

/// One thread starts the barriers of a ring and a page at `shared`: kDone arrivals empty a slot, kPageDone the page.
template <int kSlots, int kDone, int kPageDone>
STRATA_DEVICE void start_ring(unsigned char* shared) {
  auto* const full = reinterpret_cast<Barrier*>(shared);
  for (int slot = 0; slot < kSlots; ++slot) {
    start_barrier(full + slot, 1);
    start_barrier(full + kSlots + slot, kDone);
  }
  start_barrier(full + 2 * kSlots, 1);
  start_barrier(full + 2 * kSlots + 1, kPageDone);
}
/// The same for a block that runs one function once; all of it, or of its cluster, see the barriers from here on.
template <int kSlots, int kDone, bool kCluster>
STRATA_DEVICE void prepare_ring(unsigned char* shared) {
  if (thread() == 0) {
    start_ring<kSlots, kDone, 1>(shared);
    show_barriers();
  }
  if constexpr (kCluster) {
    cluster_barrier();
  } else {
    barrier();
  }
}
/// These, as they are before the first call; the slots lie `first` bytes in.
template <int kSlots>
STRATA_DEVICE Ring ring_at(unsigned char* shared, int first) {
  auto* const full = reinterpret_cast<Barrier*>(shared);
  return {shared + first, full, full + kSlots, 0, 0};
}
template <int kSlots>
STRATA_DEVICE Page page_at(unsigned char* shared, int first) {
  return {shared + first, reinterpret_cast<Barrier*>(shared) + 2 * kSlots, nullptr, 0};
}
/// A page that calls fill again and again.
template <int kSlots>
STRATA_DEVICE Page kept_page_at(unsigned char* shared, int first) {
  auto* const full = reinterpret_cast<Barrier*>(shared) + 2 * kSlots;
  return {shared + first, full, full + 1, 0};
}

}  // namespace strata_device
