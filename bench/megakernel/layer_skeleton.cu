// What a decoder's layer takes as tasks of one persistent kernel, before there are such kernels: packed weights come
// through a ring of shared memory by bulk copies, warps multiply them on tensor cores, and results go from SM to SM in
// tagged words. Products, norms, SiLU and residuals are computed; attention only moves its bytes. Batch 1, bf16, 576
// positions. docs/benchmarks-decoding.md has what came out.
//
//   nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a -o layer_skeleton layer_skeleton.cu
//   ./layer_skeleton      prints a row for each model, window and mode, and all of them as JSON
//
// Modes: "stream" waits for no activation, "chain" for no weight, "both" for each as a real layer would.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define CHECK(call)                                                                        \
  do {                                                                                     \
    const cudaError_t status = (call);                                                     \
    if (status != cudaSuccess) {                                                           \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      std::exit(1);                                                                        \
    }                                                                                      \
  } while (0)

namespace {

using u32 = unsigned;
using u64 = unsigned long long;

constexpr int kWorkers = 128;  // of 132 SMs: every product of the models is 128 equal shares
constexpr int kWarps = 8;      // that compute; one lane of one warp more loads
constexpr int kThreads = (kWarps + 1) * 32;
constexpr int kUnit = 4096;        // stages of the ring begin at multiples of it
constexpr int kRing = 45 * kUnit;  // bytes
constexpr int kBarriers = 32;      // stages that are in the ring at most
constexpr int kWordBytes = 12;     // of data in a tagged word
constexpr int kWordElements = kWordBytes / 2;
constexpr int kTile = 512;         // bytes of 8 columns × 32 terms of weights, as four 8 × 8 matrices
constexpr int kMostTerms = 1792;   // of a warp
constexpr int kMostColumns = 200;  // of a task
constexpr int kSplits = 16;        // of a key-value head among workers

__host__ __device__ constexpr int rounded_up(int bytes, int unit) { return (bytes + unit - 1) / unit * unit; }
__host__ __device__ constexpr int words_of(int elements) { return (elements + kWordElements - 1) / kWordElements; }

// ---- Hopper's instructions

__device__ u32 shared_address(const void* place) { return static_cast<u32>(__cvta_generic_to_shared(place)); }
__device__ void start(u64* barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
}
__device__ void expect(u64* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ void arrive(u64* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
__device__ void wait(u64* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}
__device__ void copy(void* to, const void* from, int bytes, u64* barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier)), "l"(policy)
      : "memory");
}
/// 12 bytes of data, and the epoch in which they were written: one access, so that no fence is needed.
__device__ uint4 load_word(const uint4* from) {
  u64 low, high;
  asm volatile("{\n.reg .b128 v;\nld.relaxed.gpu.global.b128 v, [%2];\nmov.b128 {%0, %1}, v;\n}"
               : "=l"(low), "=l"(high)
               : "l"(from)
               : "memory");
  return make_uint4(static_cast<u32>(low), static_cast<u32>(low >> 32), static_cast<u32>(high),
                    static_cast<u32>(high >> 32));
}
__device__ void store_word(uint4* to, u32 a, u32 b, u32 c, u32 epoch) {
  const u64 low = a | static_cast<u64>(b) << 32, high = c | static_cast<u64>(epoch) << 32;
  asm volatile("{\n.reg .b128 v;\nmov.b128 v, {%1, %2};\nst.relaxed.gpu.global.b128 [%0], v;\n}" ::"l"(to), "l"(low),
               "l"(high)
               : "memory");
}
__device__ bool is_there(const uint4& word, u32 epoch) { return static_cast<int>(word.w - epoch) >= 0; }
__device__ uint4 wait_for_word(const uint4* from, u32 epoch) {
  uint4 word;
  do word = load_word(from);
  while (!is_there(word, epoch));
  return word;
}
__device__ void load_matrices(u32 (&to)[4], const void* from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(from)));
}
/// Adds the product of one row (the others are 0) and 16 × 8 weights.
__device__ void multiply(float (&sums)[4], u32 x0, u32 x1, u32 w0, u32 w1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%5}, {%7,%8}, {%0,%1,%2,%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(x0), "r"(0), "r"(x1), "r"(w0), "r"(w1));
}
__device__ void meet(int barrier) { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(kWarps * 32) : "memory"); }

// ---- The kernel

enum Activation { kQkv, kHidden, kAttention, kGated, kOut, kActivations };

struct Arguments {
  const unsigned char* weights;   // by layer, product, stage in the order of consumption, worker
  const unsigned char* cache;     // by layer, worker: two stages
  uint4* words[kActivations][2];  // layers take turns
  uint4* partials[2];
  int layers;
  u32 epoch;     // of the first layer
  int window;    // bytes on their way into an SM at most
  bool streams;  // else nobody waits for weights
  bool chained;  // else nobody waits for activations
};

struct Shared {
  unsigned char ring[kRing];
  alignas(16) __nv_bfloat16 x[kWarps][kMostTerms];
  float partial[2][kWarps][kMostColumns];
  float squares[2][kWarps];
  __nv_bfloat16 out[2][kMostColumns];
  float residual[64];
  u64 full[kBarriers], empty[kBarriers];
  int bytes[kBarriers];
};

/// A place in the ring: which stage, and where it begins.
struct Place {
  u32 stage = 0;
  int at = 0;
  __device__ void advance(int stages, int bytes) {
    stage += stages;
    at = (at + stages * bytes) % kRing;
  }
  __device__ int barrier() const { return stage % kBarriers; }
  __device__ int parity() const { return stage / kBarriers & 1; }
};

/// A product of [1, kTerms] and [kTerms, 8 · kUnits] in each worker. A stage has all columns and kStageTerms terms;
/// warp w takes every 8th stage, and terms [w, w + 1) · kTerms / 8.
template <int kUnits_, int kTerms_, int kStageTerms_>
struct Product {
  static constexpr int kUnits = kUnits_, kTerms = kTerms_, kStageTerms = kStageTerms_;
  static constexpr int kColumns = 8 * kUnits;
  static constexpr int kStages = kTerms / kStageTerms, kOfWarp = kStages / kWarps;
  static constexpr int kBytes = kColumns * kStageTerms * 2, kRoom = rounded_up(kBytes, kUnit);
  static constexpr size_t kAll = size_t{kStages} * kBytes;
  static_assert(kStages % kWarps == 0 && kStageTerms % 32 == 0 && kTerms / kWarps <= kMostTerms);
  static_assert(kColumns <= kMostColumns);
};
enum Ending { kStore, kGate, kAddResidual };

struct Worker {
  const Arguments& a;
  Shared& s;
  Place place{};
  int turn = 0;
  int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;

  /// Terms [first, end) of a vector to the warp's shared memory; returns the lane's sum of squares. Tasks of kColumns
  /// elements wrote it, each to words of its own. One lane looks for the first word until it is there, and then all
  /// look for theirs: many lanes that look slow the whole chip down.
  template <int kColumns>
  __device__ float gather(const uint4* words, int first, int end, u32 epoch) {
    constexpr int kWords = words_of(kColumns), kAtOnce = 8;
    const int begin = first / kColumns * kWords + first % kColumns / kWordElements;
    const int last = (end - 1) / kColumns * kWords + (end - 1) % kColumns / kWordElements;
    if (a.chained && lane == 0) wait_for_word(words + begin, epoch);
    __syncwarp();
    float squares = 0;
    for (int base = begin + lane; __any_sync(~0u, base <= last); base += 32 * kAtOnce) {
      uint4 word[kAtOnce];
      u32 missing = 0;
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) missing |= base + 32 * n <= last ? 1u << n : 0;
      while (missing != 0) {
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n) {
          if (missing >> n & 1) word[n] = load_word(words + base + 32 * n);
        }
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n) {
          if ((missing >> n & 1) && (!a.chained || is_there(word[n], epoch))) missing &= ~(1u << n);
        }
      }
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) {
        const int number = base + 32 * n;
        if (number > last) continue;
        const int task = number / kWords * kColumns, column = task + number % kWords * kWordElements;
        const u32 pairs[3] = {word[n].x, word[n].y, word[n].z};
#pragma unroll
        for (int p = 0; p < 3; ++p) {
          const int term = column + 2 * p;
          if (term >= task + kColumns || term < first || term >= end) continue;
          *reinterpret_cast<u32*>(s.x[warp] + term - first) = pairs[p];
          const float2 x = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pairs[p]));
          squares += x.x * x.x + x.y * x.y;
        }
      }
    }
    __syncwarp();
    return squares;
  }

  /// What a task of a product does. Its result goes out with epoch + later.
  template <class P, int kInputColumns, bool kNorm, Ending kEnding>
  __device__ void product(const uint4* in, uint4* out, u32 epoch, int later = 0) {
    constexpr int kTermsOfWarp = P::kTerms / kWarps;
    float squares = gather<kInputColumns>(in, warp * kTermsOfWarp, (warp + 1) * kTermsOfWarp, epoch);
    float sums[P::kUnits][4] = {};
    Place mine = place;
    mine.advance(warp, P::kRoom);
    for (int stage = 0; stage < P::kOfWarp; ++stage) {
      if (a.streams) wait(s.full + mine.barrier(), mine.parity());
#pragma unroll 2
      for (int term = 0; term < P::kStageTerms; term += 32) {
        const __nv_bfloat16* x = s.x[warp] + stage * P::kStageTerms + term;
        u32 row[4] = {};
        if (lane < 4) {
#pragma unroll
          for (int j = 0; j < 4; ++j) row[j] = *reinterpret_cast<const u32*>(x + 8 * j + 2 * lane);
        }
#pragma unroll
        for (int unit = 0; unit < P::kUnits; ++unit) {
          int at = mine.at + (term / 32 * P::kUnits + unit) * kTile;
          if (at >= kRing) at -= kRing;
          u32 weights[4];
          load_matrices(weights, s.ring + at + lane * 16);
          multiply(sums[unit], row[0], row[1], weights[0], weights[1]);
          multiply(sums[unit], row[2], row[3], weights[2], weights[3]);
        }
      }
      __syncwarp();
      if (a.streams && lane == 0) arrive(s.empty + mine.barrier());
      mine.advance(kWarps, P::kRoom);
    }
    place.advance(P::kStages, P::kRoom);

    const int half = turn & 1;
    if (lane < 4) {
#pragma unroll
      for (int unit = 0; unit < P::kUnits; ++unit)
        *reinterpret_cast<float2*>(&s.partial[half][warp][unit * 8 + lane * 2]) =
            make_float2(sums[unit][0], sums[unit][1]);
    }
    if (kNorm) {
      for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(~0u, squares, step);
      if (lane == 0) s.squares[half][warp] = squares;
    }
    // One warp adds what all have, in their order; the others go on where they need not wait for each other.
    const bool adds = warp == turn++ % kWarps;
    if (a.chained && !adds) {
      asm volatile("bar.arrive %0, %1;" ::"r"(1 + half), "r"(kWarps * 32) : "memory");
      return;
    }
    meet(1 + half);
    if (!adds) return;
    float scale = 1;
    if (kNorm) {
      float sum = 0;
      for (int w = 0; w < kWarps; ++w) sum += s.squares[half][w];
      scale = rsqrtf(sum / P::kTerms + 1e-6f);
    }
    constexpr int kResults = kEnding == kGate ? P::kColumns / 2 : P::kColumns;
    const auto total = [&](int column) {
      float sum = 0;
      for (int w = 0; w < kWarps; ++w) sum += s.partial[half][w][column];
      return sum * scale;
    };
    for (int column = lane; column < kResults; column += 32) {
      float value = total(column);
      if (kEnding == kGate) value *= total(column + kResults) / (1 + __expf(-value));
      if (kEnding == kAddResidual) value += s.residual[column % 64];
      s.out[half][column] = __float2bfloat16(value);
    }
    __syncwarp();
    constexpr int kWords = words_of(kResults);
    static_assert(kWords <= 32);
    if (lane < kWords) {
      const u32* from = reinterpret_cast<const u32*>(&s.out[half][lane * kWordElements]);
      store_word(out + blockIdx.x * kWords + lane, from[0], from[1], from[2], epoch + later);
    }
  }

  /// Attention's bytes and waits: queries, keys and values of a head from its neighbours, two stages of the cache,
  /// partial results to and from the other splits of the head.
  template <int kInputColumns, int kResults, int kStageBytes>
  __device__ void attention(const uint4* in, uint4* partials, uint4* out, u32 epoch) {
    constexpr int kOfHead = kSplits * words_of(kInputColumns);  // words
    constexpr int kPartialWords = 176, kShare = kPartialWords / kSplits, kRoom = rounded_up(kStageBytes, kUnit);
    const int head = static_cast<int>(blockIdx.x) / kSplits, split = static_cast<int>(blockIdx.x) % kSplits;
    const int thread = static_cast<int>(threadIdx.x);
    const u32 wanted = a.chained ? epoch : 0;
    if (thread < kOfHead) wait_for_word(in + head * kOfHead + thread, wanted);
    meet(3);
    for (int stage = 0; stage < 2; ++stage) {
      if (a.streams) wait(s.full + place.barrier(), place.parity());
      float sums[4] = {};
      for (int n = warp; n < kSplits; n += kWarps) {
        u32 keys[4];
        load_matrices(keys, s.ring + (place.at + n * kTile) % kRing + lane * 16);
        multiply(sums, keys[0], keys[1], keys[2], keys[3]);
      }
      if (sums[0] == 12345.f) s.residual[lane] = sums[0];  // so that nothing is left out
      meet(3);
      if (a.streams && thread == 0) arrive(s.empty + place.barrier());
      place.advance(1, kRoom);
    }
    if (thread < kPartialWords) {
      store_word(partials + blockIdx.x * kPartialWords + thread, 1, 2, 3, epoch);
      wait_for_word(partials + (head * kSplits + thread / kShare) * kPartialWords + split * kShare + thread % kShare,
                    wanted);
    }
    meet(3);
    constexpr u32 kOnes = 0x3f803f80;
    constexpr int kWords = words_of(kResults);
    if (thread < kWords) store_word(out + blockIdx.x * kWords + thread, kOnes, kOnes, kOnes, epoch);
  }
};

/// The lane that loads: stages in their order, as far as the window and the ring allow.
struct Loader {
  const Arguments& a;
  Shared& s;
  u64 policy = 0;
  u32 next = 0, landed = 0, freed = 0;
  int on_the_way = 0, used = 0, at = 0;

  /// Stages that lie `stride` bytes apart.
  __device__ void stream(const unsigned char* from, int stages, int bytes, size_t stride) {
    const int room = rounded_up(bytes, kUnit);
    for (int stage = 0; stage < stages; ++stage) {
      while (next != landed && on_the_way + bytes > a.window) {
        wait(s.full + landed % kBarriers, landed / kBarriers & 1);
        on_the_way -= s.bytes[landed++ % kBarriers];
      }
      while (used + room > kRing || next - freed >= kBarriers) {
        wait(s.empty + freed % kBarriers, freed / kBarriers & 1);
        used -= rounded_up(s.bytes[freed++ % kBarriers], kUnit);
      }
      u64* const full = s.full + next % kBarriers;
      expect(full, bytes);
      const int first = min(bytes, kRing - at);
      copy(s.ring + at, from, first, full, policy);
      if (first < bytes) copy(s.ring, from + first, bytes - first, full, policy);
      s.bytes[next++ % kBarriers] = bytes;
      from += stride;
      on_the_way += bytes;
      used += room;
      at = (at + room) % kRing;
    }
  }
};

template <class M>
__global__ void __launch_bounds__(kThreads, 1) layers(const __grid_constant__ Arguments a) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  if (threadIdx.x == 0) {
    for (int n = 0; n < kBarriers; ++n) {
      start(s.full + n);
      start(s.empty + n);
    }
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
  }
  if (threadIdx.x < 64) s.residual[threadIdx.x] = 0.01f;
  __syncthreads();
  if (threadIdx.x >= kWarps * 32) {
    if (threadIdx.x != kWarps * 32 || !a.streams) return;
    Loader loader{a, s};
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(loader.policy));
    for (int layer = 0; layer < a.layers; ++layer) {
      const size_t task = static_cast<size_t>(layer) * kWorkers + blockIdx.x;
      const unsigned char* from = a.weights + static_cast<size_t>(layer) * kWorkers * M::kWorkerBytes;
      const auto stream_product = [&](int stages, int bytes) {
        loader.stream(from + blockIdx.x * bytes, stages, bytes, size_t{kWorkers} * bytes);
        from += static_cast<size_t>(stages) * bytes * kWorkers;
      };
      stream_product(M::Qkv::kStages, M::Qkv::kBytes);
      loader.stream(a.cache + task * 2 * M::kCacheStage, 2, M::kCacheStage, M::kCacheStage);
      stream_product(M::Output::kStages, M::Output::kBytes);
      stream_product(M::GateUp::kStages, M::GateUp::kBytes);
      stream_product(M::Down::kStages, M::Down::kBytes);
    }
    return;
  }
  Worker worker{a, s};
  constexpr int kHeadColumns = M::Output::kTerms / kWorkers;  // of attention's result, in a worker
  for (int layer = 0; layer < a.layers; ++layer) {
    const u32 epoch = a.epoch + layer;
    const int now = epoch & 1;
    const auto words = [&](Activation which) { return a.words[which][now]; };
    worker.product<typename M::Qkv, M::Down::kColumns, true, kStore>(a.words[kOut][now ^ 1], words(kQkv), epoch);
    worker.attention<M::Qkv::kColumns, kHeadColumns, M::kCacheStage>(words(kQkv), a.partials[now], words(kAttention),
                                                                     epoch);
    worker.product<typename M::Output, kHeadColumns, false, kAddResidual>(words(kAttention), words(kHidden), epoch);
    worker.product<typename M::GateUp, M::Output::kColumns, true, kGate>(words(kHidden), words(kGated), epoch);
    worker.product<typename M::Down, M::GateUp::kColumns / 2, false, kAddResidual>(words(kGated), words(kOut), epoch,
                                                                                   1);
  }
}

template <class Qkv_, class Output_, class GateUp_, class Down_, int kCacheStage_>
struct Model {
  using Qkv = Qkv_;
  using Output = Output_;
  using GateUp = GateUp_;
  using Down = Down_;
  static constexpr int kCacheStage = kCacheStage_;
  static constexpr size_t kWorkerBytes = Qkv::kAll + Output::kAll + GateUp::kAll + Down::kAll;
};
using Qwen8B = Model<Product<6, 4096, 128>, Product<4, 4096, 256>, Product<24, 4096, 32>, Product<4, 12288, 256>, 9216>;
using Qwen1B7 = Model<Product<4, 2048, 256>, Product<2, 2048, 256>, Product<12, 2048, 64>, Product<2, 6144, 384>, 9216>;
using Llama1B = Model<Product<3, 2048, 256>, Product<2, 2048, 256>, Product<16, 2048, 64>, Product<2, 8192, 512>, 4608>;
using Qwen0B6 = Model<Product<4, 1024, 128>, Product<1, 2048, 256>, Product<6, 1024, 128>, Product<1, 3072, 384>, 9216>;

// ---- The host

/// bf16 numbers around 0.01 of either sign.
__global__ void fill(u32* to, size_t count) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < count; i += step) {
    u32 hash = static_cast<u32>(i) * 2654435761u;
    hash ^= hash >> 15;
    to[i] = (hash & 0x80ff80ffu) | 0x3c003c00u;
  }
}

void* allocate(size_t bytes) {
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, bytes));
  return memory;
}

template <class M>
void measure(const char* name, int count, std::string& rows) {
  constexpr size_t kWordsBytes = 1 << 20;
  const size_t weight_bytes = M::kWorkerBytes * kWorkers * count;
  const size_t cache_bytes = size_t{2} * M::kCacheStage * kWorkers * count;
  auto* const weights = static_cast<unsigned char*>(allocate(weight_bytes));
  auto* const cache = static_cast<unsigned char*>(allocate(cache_bytes));
  fill<<<1024, 256>>>(reinterpret_cast<u32*>(weights), weight_bytes / 4);
  fill<<<1024, 256>>>(reinterpret_cast<u32*>(cache), cache_bytes / 4);
  Arguments a{};
  a.weights = weights;
  a.cache = cache;
  std::vector<uint4*> all;
  for (int half = 0; half < 2; ++half) {
    for (auto& words : a.words) all.push_back(words[half] = static_cast<uint4*>(allocate(kWordsBytes)));
    all.push_back(a.partials[half] = static_cast<uint4*>(allocate(kWordsBytes)));
  }
  for (uint4* words : all) CHECK(cudaMemset(words, 0, kWordsBytes));
  CHECK(cudaFuncSetAttribute(layers<M>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Shared) + 1024));
  u32 epoch = 1000;
  /// Microseconds: the median of 9 runs.
  const auto timed = [&](int layer_count) {
    std::vector<float> times;
    for (int run = 0; run < 9; ++run) {
      a.layers = layer_count;
      a.epoch = epoch;
      const std::vector<uint4> input(kWordsBytes / sizeof(uint4), uint4{0x3f803f80, 0x3f803f80, 0x3f803f80, epoch});
      CHECK(cudaMemcpy(a.words[kOut][(epoch & 1) ^ 1], input.data(), kWordsBytes, cudaMemcpyHostToDevice));
      epoch += layer_count + 8;
      cudaEvent_t before, after;
      CHECK(cudaEventCreate(&before));
      CHECK(cudaEventCreate(&after));
      void* arguments[] = {&a};
      CHECK(cudaEventRecord(before));
      CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(layers<M>), dim3(kWorkers), dim3(kThreads),
                                        arguments, sizeof(Shared) + 1024, nullptr));
      CHECK(cudaEventRecord(after));
      CHECK(cudaEventSynchronize(after));
      float milliseconds = 0;
      CHECK(cudaEventElapsedTime(&milliseconds, before, after));
      times.push_back(milliseconds * 1e3f);
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  };
  const double bytes = static_cast<double>(weight_bytes + cache_bytes) / count;
  for (const int window : {16384, 24576, 32768, 49152, 65536}) {
    for (const char* mode : {"stream", "chain", "both"}) {
      a.window = window;
      a.streams = std::string(mode) != "chain";
      a.chained = std::string(mode) != "stream";
      if (!a.streams && window != 49152) continue;
      const double layer = (timed(count) - timed(0)) / count;  // without the launch
      std::printf("%-12s window %6d %-6s %7.2f us a layer, %6.2f TB/s, floor %6.2f, ratio %.3f\n", name, window, mode,
                  layer, a.streams ? bytes / layer * 1e-6 : 0.0, bytes / 4.39e6, layer / (bytes / 4.39e6));
      char row[256];
      std::snprintf(row, sizeof row,
                    "%s  {\"model\": \"%s\", \"window\": %d, \"mode\": \"%s\", \"us\": %.2f, \"floor\": %.2f}",
                    rows.empty() ? "" : ",\n", name, window, mode, layer, bytes / 4.39e6);
      rows += row;
    }
  }
  for (uint4* words : all) CHECK(cudaFree(words));
  CHECK(cudaFree(weights));
  CHECK(cudaFree(cache));
}

}  // namespace

int main() {
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  std::string rows;
  measure<Qwen8B>("qwen3-8b", 12, rows);
  measure<Qwen1B7>("qwen3-1.7b", 28, rows);
  measure<Llama1B>("llama-3.2-1b", 16, rows);
  measure<Qwen0B6>("qwen3-0.6b", 28, rows);
  std::printf("{\"device\": \"%s\", \"rows\": [\n%s\n]}\n", device.name, rows.c_str());
  return 0;
}
