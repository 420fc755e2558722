// The CUDA text of calibrate.cpp. All kernels have the same parameters; what is not used keeps the compiler from
// computing anything before it runs.
#pragma once

namespace strata {

inline constexpr const char* kCalibrationSource = R"cuda(
typedef long long int64;

#define STRATA_BENCHMARK extern "C" __global__ void __launch_bounds__(1024)
#define STRATA_ARGUMENTS const float4* from, float4* to, int64 count, int passes

// Loads that no L1 cache serves and no compiler moves or removes.
__device__ float4 strata_load(const float4* at) {
  float4 v;
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(at) : "memory");
  return v;
}
__device__ int64 strata_first() { return (int64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ int64 strata_step() { return (int64)gridDim.x * blockDim.x; }

STRATA_BENCHMARK strata_empty(STRATA_ARGUMENTS) {}

STRATA_BENCHMARK strata_touch(STRATA_ARGUMENTS) {
  to[strata_first()] = strata_load(from + strata_first());
}

STRATA_BENCHMARK strata_touch_overlapped(STRATA_ARGUMENTS) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  to[strata_first()] = strata_load(from + strata_first());
}

STRATA_BENCHMARK strata_read(STRATA_ARGUMENTS) {
  const int64 step = strata_step();
  float sum = 0;
  for (int pass = 0; pass < passes; ++pass) {
    for (int64 i = strata_first(); i + 3 * step < count; i += 4 * step) {
      float4 v[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) v[j] = strata_load(from + i + j * step);
#pragma unroll
      for (int j = 0; j < 4; ++j) sum += v[j].x + v[j].y + v[j].z + v[j].w;
    }
  }
  if (sum == 1.25e38f) to->x = sum;
}

STRATA_BENCHMARK strata_write(STRATA_ARGUMENTS) {
  for (int64 i = strata_first(); i < count; i += strata_step()) to[i] = make_float4(1, 2, 3, passes);
}

STRATA_BENCHMARK strata_copy(STRATA_ARGUMENTS) {
  const int64 step = strata_step();
  for (int64 i = strata_first(); i + 3 * step < count; i += 4 * step) {
    float4 v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) v[j] = strata_load(from + i + j * step);
#pragma unroll
    for (int j = 0; j < 4; ++j) to[i + j * step] = v[j];
  }
}

STRATA_BENCHMARK strata_fma_chain(STRATA_ARGUMENTS) {
  const float a = from->x, b = from->y;
  float x = threadIdx.x;
#pragma unroll 64
  for (int64 i = 0; i < count; ++i) x = fmaf(x, a, b);
  if (x == 1.25e38f) to->x = x;
}

STRATA_BENCHMARK strata_fma(STRATA_ARGUMENTS) {
  const float a = from->x, b = from->y;
  float x[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) x[j] = threadIdx.x + j;
#pragma unroll 16
  for (int64 i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) x[j] = fmaf(x[j], a, b);
  }
  float sum = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) sum += x[j];
  if (sum == 1.25e38f) to->x = sum;
}

STRATA_BENCHMARK strata_exp(STRATA_ARGUMENTS) {
  float x[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) x[j] = from->x + j;
#pragma unroll 16
  for (int64 i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[j]));
  }
  float sum = 0;
#pragma unroll
  for (int j = 0; j < 8; ++j) sum += x[j];
  if (sum == 1.25e38f) to->x = sum;
}

STRATA_BENCHMARK strata_barrier(STRATA_ARGUMENTS) {
  for (int64 i = 0; i < count; ++i) __syncthreads();
}

// One thread has bulk copies of all of a ring on their way, as the mega-kernel's loaders have. Nobody reads what comes.
// A block has so much shared memory without asking for it. next(): the chunk to load, or a negative number from the end
// on.
const int kStrataStages = 5, kStrataChunk = 9728;
template <class Next>
__device__ void strata_bulk_loads(const float4* from, const Next& next) {
#if __CUDA_ARCH__ >= 900
  __shared__ __align__(128) char ring[kStrataStages][kStrataChunk];
  __shared__ __align__(8) unsigned long long full[kStrataStages];
  const auto address = [](const void* of) { return (unsigned)__cvta_generic_to_shared(of); };
  for (int stage = 0; stage < kStrataStages; ++stage)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(address(full + stage)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  int loading = 0;
  const auto load = [&](int stage) {
    const int64 chunk = next();
    if (chunk < 0) return;
    ++loading;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(address(full + stage)), "r"(kStrataChunk) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(address(ring[stage])), "l"((const char*)from + chunk * kStrataChunk), "r"(kStrataChunk),
                    "r"(address(full + stage)) : "memory");
  };
  for (int stage = 0; stage < kStrataStages; ++stage) load(stage);
  int stage = 0;
  unsigned phase = 0;
  while (loading > 0) {
    unsigned is_full = 0;
    while (is_full == 0) {
      asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                   " selp.u32 %0, 1, 0, p;\n}" : "=r"(is_full) : "r"(address(full + stage)), "r"(phase) : "memory");
    }
    --loading;
    load(stage);
    if (++stage == kStrataStages) {
      stage = 0;
      phase ^= 1;
    }
  }
#endif
}

STRATA_BENCHMARK strata_stream(STRATA_ARGUMENTS) {
  if (threadIdx.x != 0) return;
  const int64 chunks = count * (int64)sizeof(float4) / kStrataChunk;
  int64 chunk = blockIdx.x;
  strata_bulk_loads(from, [&]() -> int64 {
    const int64 now = chunk;
    chunk += gridDim.x;
    return now < chunks ? now : -1;
  });
}

// Two blocks hand 4 KiB to each other: stores, a flag after them, and what the other loads once it has seen the flag.
// `to` holds the two flags, which are 0 before and after, and from 4 KiB on what is handed over.
STRATA_BENCHMARK strata_handover(STRATA_ARGUMENTS) {
  unsigned* mine = (unsigned*)to + 32 * blockIdx.x;
  unsigned* other = (unsigned*)to + 32 * (1 - blockIdx.x);
  float4* data = to + 256;
  const auto wait_for = [&](unsigned turn) {
    if (threadIdx.x == 0) {
      unsigned seen;
      do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(other) : "memory");
      while (seen != turn);
    }
    __syncthreads();
  };
  for (unsigned turn = 1; turn <= (unsigned)count; ++turn) {
    if (blockIdx.x == 1) wait_for(turn);
    float4 v = strata_load(data + threadIdx.x);
    v.x += 1;
    data[threadIdx.x] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("fence.acq_rel.gpu; st.release.gpu.global.u32 [%0], %1;" :: "l"(mine), "r"(turn) : "memory");
    }
    if (blockIdx.x == 0) wait_for(turn);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *mine = *other = 0;
}
)cuda";

}  // namespace strata
