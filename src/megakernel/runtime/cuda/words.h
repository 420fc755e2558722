// What host and device agree on where the mega-kernel runs on a GPU: the words of device and shared memory, the warps
// of a block, and the layout of a worker's shared memory. Part of the device code as text, so it is as the core is:
// freestanding C++17.
#pragma once

#include "megakernel/runtime/core/program.h"

namespace strata::megakernel {

struct CudaCounter {
  unsigned value;
};
struct alignas(8) CudaBarrier {
  unsigned long long word;
};
struct alignas(16) CudaTaggedWord {
  Tagged value;
};

/// The words of device memory, as Program has them; the platform (device/platform.h) adds what is done with them.
struct CudaWords {
  using Counter = CudaCounter;
  using Barrier = CudaBarrier;
  using TaggedWord = CudaTaggedWord;
  static constexpr int kCounterStride = 32;  ///< 128 bytes, a line of the L2 cache
};

// A worker's block: the warps of compute, then the one of which a lane loads, then the one of which a lane is control.
// The blocks after the workers' have as many threads, of which one lane each of the first warps is a scheduler.
constexpr int kComputeWarps = 8;
constexpr int kComputeThreads = kComputeWarps * 32;
constexpr int kLoadThread = kComputeThreads;
constexpr int kControlThread = kComputeThreads + 32;
constexpr int kBlockThreads = kComputeThreads + 64;
constexpr int kBlockSchedulers = 4;

/// Bytes from the begin of a worker's shared memory, which is aligned to 1024 bytes as the ring is.
struct SharedLayout {
  unsigned ring;
  unsigned scratch;  ///< aligned to 1024 bytes
  unsigned full;
  unsigned empty;
  unsigned listed;
  unsigned unlisted;
  unsigned list;
  unsigned counters;  ///< loaded, ended, running[2]
  unsigned stages;
  unsigned bytes;
};

STRATA_DEVICE constexpr SharedLayout shared_layout(unsigned ring_bytes, unsigned ring_stages, unsigned listed,
                                                   unsigned scratch_bytes) {
  SharedLayout layout{};
  layout.scratch = ring_bytes;
  layout.full = layout.scratch + ((scratch_bytes + 15) & ~15u);
  layout.empty = layout.full + ring_stages * static_cast<unsigned>(sizeof(CudaBarrier));
  layout.listed = layout.empty + ring_stages * static_cast<unsigned>(sizeof(CudaBarrier));
  layout.unlisted = layout.listed + listed * static_cast<unsigned>(sizeof(CudaBarrier));
  layout.list = (layout.unlisted + listed * static_cast<unsigned>(sizeof(CudaBarrier)) + 15) & ~15u;
  layout.counters = layout.list + listed * static_cast<unsigned>(sizeof(Descriptor));
  layout.stages = layout.counters + 4 * static_cast<unsigned>(sizeof(CudaCounter));
  layout.bytes = layout.stages + ring_stages * static_cast<unsigned>(sizeof(StageRecord));
  return layout;
}

}  // namespace strata::megakernel
