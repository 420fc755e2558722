// The CUDA text of calibrate_events.cpp, which stands behind that of calibrate_kernels.h: blocks that wait for each
// other's events as the mega-kernel's tasks do, by the same instructions (megakernel/runtime/cuda/device/platform.h).
#pragma once

namespace strata {

inline constexpr unsigned kEventTeam = 256;  ///< threads of a block that compute, as the mega-kernel's

// The kernels' memory, all 0 at first: places in bytes.
inline constexpr int kEventFailed = 128;          ///< a word: why not all was measured
inline constexpr int kEventCounters = 1024;       ///< one of each group, a line of the L2 cache apart
inline constexpr int kEventData = 64 << 10;       ///< 64 bytes for each block
inline constexpr int kEventWords = 128 << 10;     ///< the same in tagged words
inline constexpr int kEventBytes = 256 << 10;     ///< in all
inline constexpr int kMostEventBlocks = 500;      ///< whose counters end before kEventData
inline constexpr unsigned kEventWaitedLong = 1;   ///< kEventFailed: a block waited for a second
inline constexpr unsigned kEventDataMissing = 2;  ///< kEventFailed: an event came before its data

/// After the values of the constants above, as macros.
inline constexpr const char* kEventSource = R"cuda(
// In the memory from its begin on.
#define STRATA_EPOCH 0
#define STRATA_EVENT_ARGUMENTS const float4* from, int64 vectors, char* memory, int64 fan_in, int64 epochs

__device__ bool strata_reached(unsigned have, unsigned want) { return (int)(have - want) >= 0; }
__device__ unsigned strata_load_word(const void* at) {
  unsigned value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ void strata_store_word(void* at, unsigned value) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(at), "r"(value) : "memory");
}
// A tagged word: 8 bytes of data, an epoch, and a word that is 0. The data depends on all of it, or ptxas would split
// the load.
struct StrataTagged {
  unsigned first, second, tag;
};
__device__ StrataTagged strata_load_tagged(const void* at) {
  unsigned long long low, high;
  asm volatile("{\n.reg .b128 v;\nld.relaxed.gpu.global.b128 v, [%2];\nmov.b128 {%0, %1}, v;\n}"
               : "=l"(low), "=l"(high) : "l"(at) : "memory");
  const unsigned first = (unsigned)low, second = (unsigned)(low >> 32), zero = (unsigned)(high >> 32);
  return {first ^ (second & zero), second ^ (first & zero), (unsigned)high + zero};
}
__device__ void strata_store_tagged(void* at, unsigned long long data, unsigned tag) {
  asm volatile("{\n.reg .b128 v;\nmov.b128 v, {%1, %2};\nst.relaxed.gpu.global.b128 [%0], v;\n}"
               :: "l"(at), "l"(data), "l"((unsigned long long)tag) : "memory");
}
__device__ void strata_meet() { asm volatile("barrier.sync 1, %0;" :: "n"(STRATA_EVENT_TEAM) : "memory"); }

// Until look() is true or, after a second, `lost`: from then on no block waits, so that all of them end. kLanes: by the
// lanes of a warp together, for which look() has one answer.
template <bool kLanes, class Look>
__device__ void strata_await(char* memory, bool& lost, const Look& look) {
  unsigned long long began = 0;
  for (unsigned looks = 1; !lost && !look(); ++looks) {
    if (looks % 1024 != 0) continue;
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) :: "memory");
    if (began == 0) began = now;
    if (now - began > 1000000000ull) strata_store_word(memory + STRATA_EVENT_FAILED, STRATA_EVENT_WAITED_LONG);
    lost = strata_load_word(memory + STRATA_EVENT_FAILED) != 0;
    if (kLanes) lost = __shfl_sync(~0u, lost, 0);
  }
}

// As many 64 bytes as the group of blocks before this one's has written for it, and an event that these blocks trigger.
struct StrataCounted {
  char* memory;
  int fan_in, group, to, place;  // `to`: the group after it; `place`: of this block's bytes there

  __device__ char* counter(int of) const { return memory + STRATA_EVENT_COUNTERS + 128 * of; }
  __device__ uint4* data(int block) const { return (uint4*)(memory + STRATA_EVENT_DATA + 64 * block); }

  __device__ void signal(unsigned epoch) const {
    if (threadIdx.x < 4) data(place)[threadIdx.x] = make_uint4(epoch, epoch, epoch, epoch);
    strata_meet();
    if (threadIdx.x == 0)
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(counter(to)) : "memory");
  }
  __device__ void take(unsigned epoch, bool& lost) const {
    if (threadIdx.x == 0) {
      strata_await<false>(memory, lost, [&] {
        return strata_reached(strata_load_word(counter(group)), (unsigned)fan_in * epoch);
      });
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
    }
    strata_meet();
    // The counter has signals of all epochs: of blocks that are ahead they may stand for that of one which is late.
    const float4* at = (const float4*)data(group * fan_in);
    for (int i = threadIdx.x; i < 4 * fan_in; i += STRATA_EVENT_TEAM) {
      if (strata_reached(__float_as_uint(strata_load(at + i).w), epoch)) continue;
      strata_await<false>(memory, lost, [&] { return strata_reached(strata_load_word(&at[i].w), epoch); });
    }
  }
};

// The same without a counter: 8 words for each block, read as read_tagged (megakernel/runtime/core/events.h) does.
struct StrataTags {
  char* memory;
  int fan_in, group, to, place;

  __device__ char* word(int block, int n) const { return memory + STRATA_EVENT_WORDS + 128 * block + 16 * n; }

  __device__ void signal(unsigned epoch) const {
    if (threadIdx.x < 8) strata_store_tagged(word(place, threadIdx.x), epoch | (unsigned long long)epoch << 32, epoch);
  }
  __device__ void take(unsigned epoch, bool& lost) const {
    const int count = 8 * fan_in, lane = threadIdx.x % 32, kAtOnce = 4;
    for (int base = 0; base < count; base += STRATA_EVENT_TEAM * kAtOnce) {
      const int mine = base + threadIdx.x;
      unsigned missing = 0;
      bool good = true;
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) missing |= mine + STRATA_EVENT_TEAM * n < count ? 1u << n : 0u;
      for (;;) {
        StrataTagged seen[kAtOnce];
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n)
          if (missing >> n & 1) seen[n] = strata_load_tagged(word(group * fan_in, mine + STRATA_EVENT_TEAM * n));
        int object = 0;
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n) {
          if (!(missing >> n & 1)) continue;
          if (strata_reached(seen[n].tag, epoch)) {
            missing &= ~(1u << n);
            good &= strata_reached(seen[n].first, epoch) && strata_reached(seen[n].second, epoch);
          } else {
            object = mine + STRATA_EVENT_TEAM * n;
          }
        }
        const int late = __ffs(__ballot_sync(~0u, missing != 0)) - 1;
        if (late < 0 || lost) break;
        const char* awaited = word(group * fan_in, __shfl_sync(~0u, object, late));
        strata_await<true>(memory, lost, [&] {
          return __ballot_sync(~0u, lane == 0 && strata_reached(strata_load_tagged(awaited).tag, epoch)) != 0;
        });
      }
      if (!good && strata_load_word(memory + STRATA_EVENT_FAILED) == 0)
        strata_store_word(memory + STRATA_EVENT_FAILED, STRATA_EVENT_DATA_MISSING);
    }
    strata_meet();
  }
};

// Groups of `fan_in` blocks in a ring: in each epoch a group triggers the event of the group after it, once a block,
// and waits for its own. What an epoch takes is the time from a signal to the next one.
template <class Events>
__device__ void strata_epochs(char* memory, int fan_in, int epochs, unsigned last) {
  const int group = blockIdx.x / fan_in;
  const int to = group + 1 == gridDim.x / fan_in ? 0 : group + 1;
  const Events events{memory, fan_in, group, to, to * fan_in + (int)blockIdx.x % fan_in};
  bool lost = false;
  for (int n = 1; n <= epochs; ++n) {
    events.signal(last + n);
    events.take(last + n, lost);
  }
  // There are more epochs than groups, so all blocks have begun and have read it.
  if (blockIdx.x == 0 && threadIdx.x == 0) strata_store_word(memory + STRATA_EPOCH, last + epochs);
}

// What keeps device memory busy until `over`: bulk copies as the mega-kernel's, or loads of as many bytes at a time.
__device__ void strata_load_until(const float4* from, int64 vectors, char* memory, const volatile unsigned& over) {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x != STRATA_EVENT_TEAM) return;
  const int64 chunks = vectors * (int64)sizeof(float4) / kStrataChunk;
  int64 chunk = blockIdx.x;
  strata_bulk_loads(from, [&]() -> int64 {
    if (over != 0) return -1;
    const int64 now = chunk;
    chunk = (chunk + gridDim.x) % chunks;
    return now;
  });
#else
  const int64 step = (int64)gridDim.x * (blockDim.x - STRATA_EVENT_TEAM);
  const int64 first = (int64)blockIdx.x * (blockDim.x - STRATA_EVENT_TEAM) + threadIdx.x - STRATA_EVENT_TEAM;
  float sum = 0;
  for (int64 i = first; over == 0; i = i + 7 * step < vectors ? i + 4 * step : first) {
    float4 v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) v[j] = strata_load(from + i + j * step);
#pragma unroll
    for (int j = 0; j < 4; ++j) sum += v[j].x + v[j].y + v[j].z + v[j].w;
  }
  if (sum == 1.25e38f) strata_store_word(memory + STRATA_EVENT_FAILED, STRATA_EVENT_DATA_MISSING);
#endif
}

template <class Events>
__device__ void strata_events(STRATA_EVENT_ARGUMENTS) {
  __shared__ unsigned last, failed;
  __shared__ volatile unsigned over;
  if (threadIdx.x == 0) {
    last = strata_load_word(memory + STRATA_EPOCH);
    failed = strata_load_word(memory + STRATA_EVENT_FAILED);
    over = 0;
  }
  __syncthreads();
  if (failed != 0) return;
  if (threadIdx.x >= STRATA_EVENT_TEAM) return strata_load_until(from, vectors, memory, over);
  strata_epochs<Events>(memory, (int)fan_in, (int)epochs, last);
  strata_meet();
  if (threadIdx.x == 0) over = 1;
}

STRATA_BENCHMARK strata_counters(STRATA_EVENT_ARGUMENTS) {
  strata_events<StrataCounted>(from, vectors, memory, fan_in, epochs);
}
STRATA_BENCHMARK strata_tagged(STRATA_EVENT_ARGUMENTS) {
  strata_events<StrataTags>(from, vectors, memory, fan_in, epochs);
}
)cuda";

}  // namespace strata
