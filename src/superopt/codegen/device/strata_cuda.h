// What generated code asks of the GPU: threads, barriers, warps, tensor cores, asynchronous copies, and the types of 16
// bits. strata_host.h has the same for a host compiler, and stands in front of the source there.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define STRATA_DEVICE __device__ __forceinline__
#define STRATA_KERNEL extern "C" __global__

namespace strata_device {

using int64 = long long;
using f16 = __half;
using bf16 = __nv_bfloat16;

STRATA_DEVICE float to_compute(f16 x) { return __half2float(x); }
STRATA_DEVICE float to_compute(bf16 x) { return __bfloat162float(x); }
STRATA_DEVICE void store(f16& to, float x) { to = __float2half_rn(x); }
STRATA_DEVICE void store(bf16& to, float x) { to = __float2bfloat16_rn(x); }
STRATA_DEVICE unsigned bits_of(f16 x) { return __half_as_ushort(x); }
STRATA_DEVICE unsigned bits_of(bf16 x) { return __bfloat16_as_ushort(x); }
/// Functions of floats as CUDA has them: errors of one or two units in the last place.
struct Exact {
  STRATA_DEVICE static float exponential(float x) { return expf(x); }
  STRATA_DEVICE static float exponential_of_difference(float x, float y) { return expf(x - y); }
  STRATA_DEVICE static float square_root(float x) { return sqrtf(x); }
  STRATA_DEVICE static float inverse_root(float x) { return 1.0f / sqrtf(x); }
  STRATA_DEVICE static float quotient(float x, float y) { return x / y; }
  STRATA_DEVICE static double exponential(double x) { return exp(x); }
  STRATA_DEVICE static double square_root(double x) { return sqrt(x); }
  STRATA_DEVICE static double inverse_root(double x) { return 1.0 / sqrt(x); }
  STRATA_DEVICE static double quotient(double x, double y) { return x / y; }
};
/// Where all inputs have 16 bits a few units in the last place of float are nothing.
struct Approximate : Exact {
  using Exact::exponential, Exact::square_root, Exact::inverse_root, Exact::quotient;
  STRATA_DEVICE static float exponential(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
    return y;
  }
  /// exp(x − y), where y serves many x: its product with log₂ e is the same for all.
  STRATA_DEVICE static float exponential_of_difference(float x, float y) {
    constexpr float kLog2E = 1.4426950408889634f;
    float z;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(z) : "f"(fmaf(x, kLog2E, -(y * kLog2E))));
    return z;
  }
  STRATA_DEVICE static float square_root(float x) {
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  STRATA_DEVICE static float inverse_root(float x) { return rsqrtf(x); }
  STRATA_DEVICE static float quotient(float x, float y) { return __fdividef(x, y); }
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
/// The larger; NaN where one is NaN.
STRATA_DEVICE float maximum(float a, float b) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}
#endif

STRATA_DEVICE float minus_infinity() { return __int_as_float(0xff800000); }

/// Two numbers rounded to 16 bits in a word, the first in the lower half; and the same to memory.
STRATA_DEVICE unsigned pack_pair(float low, float high, f16) {
  const __half2 pair = __floats2half2_rn(low, high);
  unsigned word;
  memcpy(&word, &pair, sizeof word);
  return word;
}
STRATA_DEVICE unsigned pack_pair(float low, float high, bf16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  unsigned word;
  memcpy(&word, &pair, sizeof word);
  return word;
}
STRATA_DEVICE void store_pair(f16* to, float low, float high) {
  *reinterpret_cast<__half2*>(to) = __floats2half2_rn(low, high);
}
STRATA_DEVICE void store_pair(bf16* to, float low, float high) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(low, high);
}
STRATA_DEVICE void store_pair(float* to, float low, float high) {
  *reinterpret_cast<float2*>(to) = make_float2(low, high);
}

#ifdef STRATA_TASKS
/// In a kernel that runs one task after the other. What depends on the thread alone would be computed before their
/// loop, for all functions together, and be kept in local memory, which a task then reads from the second-level cache:
/// 250 cycles for what takes ten to compute. So it seems to be another thread wherever it is asked for.
STRATA_DEVICE int thread_now() {
  unsigned thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return static_cast<int>(thread % 1024);  // so its range is known
}
#else
STRATA_DEVICE int thread_now() { return static_cast<int>(threadIdx.x); }
#endif
STRATA_DEVICE int64 thread() { return thread_now(); }
STRATA_DEVICE int64 threads() { return blockDim.x; }
STRATA_DEVICE int64 block() { return blockIdx.x; }
STRATA_DEVICE int64 blocks() { return gridDim.x; }

STRATA_DEVICE int lane() { return thread_now() % 32; }

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
/// Programmatic dependent launch: the next kernel's blocks may be set up from now on; and the memory of the kernels
/// before is complete from here on.
STRATA_DEVICE void let_next_kernel_start() { asm volatile("griddepcontrol.launch_dependents;"); }
STRATA_DEVICE void wait_for_previous_kernel() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

/// The number of this block in its cluster; the cluster's threads meet; and where another block of it keeps what this
/// one keeps at `here` in shared memory.
STRATA_DEVICE int cluster_rank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
STRATA_DEVICE void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
STRATA_DEVICE const float* cluster_pointer(const float* here, int rank) {
  const float* there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(here), "r"(rank));
  return there;
}

/// wgmma: after the warps' own accesses to its registers, and until its results are there; and before the barrier after
/// which it may read what this thread wrote to shared memory.
STRATA_DEVICE void wide_products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
STRATA_DEVICE void wide_products_issued() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
STRATA_DEVICE void wide_products_end() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
/// Nothing that computes or reads the register moves across this place.
STRATA_DEVICE void hold(float& x) { asm volatile("" : "+f"(x)::"memory"); }
STRATA_DEVICE void hold(unsigned& x) { asm volatile("" : "+r"(x)::"memory"); }
STRATA_DEVICE void fence_for_wide_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#else
STRATA_DEVICE void wide_products_end() {}
STRATA_DEVICE void let_next_kernel_start() {}
STRATA_DEVICE void wait_for_previous_kernel() {}
STRATA_DEVICE const float* cluster_pointer(const float* here, int) { return here; }
#endif

/// All threads of the block meet, and see what the others wrote.
STRATA_DEVICE void barrier() { __syncthreads(); }
/// So do the first `threads` that come, a multiple of 32; `id` is 1 … 15.
STRATA_DEVICE void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// Comes to named_barrier(id, threads) without waiting for the others.
STRATA_DEVICE void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// So do the lanes of a warp. Those below, which whole warps execute, order no memory for other lanes.
STRATA_DEVICE void warp_barrier() { __syncwarp(); }

template <int kBytes>
struct WordOf;
template <>
struct WordOf<4> {
  using Type = unsigned;
};
template <>
struct WordOf<8> {
  using Type = unsigned long long;
};

/// The value of lane `source`, modulo 32; T is any type of 4 or 8 bytes that can be copied as bytes.
template <class T>
STRATA_DEVICE T shuffle(T value, int source) {
  typename WordOf<sizeof(T)>::Type word;
  memcpy(&word, &value, sizeof(T));
  word = __shfl_sync(0xffffffffu, word, source);
  memcpy(&value, &word, sizeof(T));
  return value;
}

/// The value of the lane whose number is this one's XOR `mask`.
template <class T>
STRATA_DEVICE T shuffle_xor(T value, int mask) {
  typename WordOf<sizeof(T)>::Type word;
  memcpy(&word, &value, sizeof(T));
  word = __shfl_xor_sync(0xffffffffu, word, mask);
  memcpy(&value, &word, sizeof(T));
  return value;
}

/// Adds to a word of device memory, in no order with anything else.
STRATA_DEVICE void add_relaxed(unsigned& to, unsigned amount) { atomicAdd(&to, amount); }

/// Whether the condition holds in any lane of the warp.
STRATA_DEVICE bool any_lane(bool condition) { return __any_sync(0xffffffffu, condition); }

/// D += A × B for 16 × 16 by 16 × 8, whose elements the lanes hold as PTX's mma.m16n8k16 wants them. The tag is the
/// type of A and B. From sm_80.
#define STRATA_MMA(type)                                                     \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                 \
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                       \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
STRATA_DEVICE void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], f16) { STRATA_MMA("f16"); }
STRATA_DEVICE void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], bf16) { STRATA_MMA("bf16"); }
#undef STRATA_MMA

/// Loads kCount (1, 2, 4) matrices of 8 × 8 16-bit values from shared memory into fragments. Lane l of the first
/// 8·kCount points at row l mod 8 of matrix l / 8: 16 bytes, 16-byte aligned. Of matrix j a lane gets in r[j] the
/// elements 2·(lane mod 4) and the next of row lane / 4; of column lane / 4 if kTranspose.
template <int kCount, bool kTranspose>
STRATA_DEVICE void ldmatrix(unsigned (&r)[kCount], const void* row) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4);
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
#define STRATA_LDMATRIX(count, registers, ...)                                                    \
  if constexpr (kTranspose) {                                                                     \
    asm volatile("ldmatrix.sync.aligned.m8n8.x" count ".trans.shared.b16 {" registers:__VA_ARGS__ \
                 : "r"(address)                                                                   \
                 : "memory");                                                                     \
  } else {                                                                                        \
    asm volatile("ldmatrix.sync.aligned.m8n8.x" count ".shared.b16 {" registers:__VA_ARGS__       \
                 : "r"(address)                                                                   \
                 : "memory");                                                                     \
  }
  if constexpr (kCount == 1) {
    STRATA_LDMATRIX("1", "%0}, [%1];", "=r"(r[0]))
  } else if constexpr (kCount == 2) {
    STRATA_LDMATRIX("2", "%0, %1}, [%2];", "=r"(r[0]), "=r"(r[1]))
  } else {
    STRATA_LDMATRIX("4", "%0, %1, %2, %3}, [%4];", "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]))
  }
#undef STRATA_LDMATRIX
}

/// Starts a copy of kBytes (4, 8, 16) to shared memory; both places are aligned to as much. It has arrived for this
/// thread after commit_copies and wait_copies, and for others after a barrier after these. From sm_80.
template <int kBytes>
STRATA_DEVICE void copy_async(void* shared, const void* global) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  if constexpr (kBytes == 16) {  // only these can pass by the L1 cache
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(kBytes) : "memory");
  }
}
STRATA_DEVICE void copy_async_16(void* shared, const void* global) { copy_async<16>(shared, global); }
/// Makes the copies that this thread started since the last commit a group, if need be an empty one.
STRATA_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most the last kPending groups of this thread are still on their way.
template <int kPending>
STRATA_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace strata_device
#endif
