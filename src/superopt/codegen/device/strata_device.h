// The device library of generated CUDA: the block-wide operators that a block function is made of. It is part of every
// generated source, and compiles in three ways with one meaning:
//   - by NVRTC or nvcc, for a GPU;
//   - by a host compiler, where one thread runs a block: every loop below then covers all elements, and
//     barriers are empty, so that AddressSanitizer sees the memory plan;
//   - by a host compiler with STRATA_HOST_THREADS (their number), where a block's threads are real threads, so that a
//     missing barrier shows as a wrong result or a race.
//
// Conventions. An operator is called by all threads of a team: a block, or the grid where there is no block graph.
// Element i belongs to thread i mod threads of the team, except in products on tensor cores. Shapes and strides are
// template arguments. Values are computed in float (double for f64 programs).

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define STRATA_DEVICE __device__ __forceinline__
#define STRATA_KERNEL extern "C" __global__
#else
#include <cmath>
#include <cstdint>
#include <cstring>
#define STRATA_DEVICE inline
#endif

namespace strata_device {

using int64 = long long;

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
using f16 = __half;
using bf16 = __nv_bfloat16;
STRATA_DEVICE int64 thread() { return threadIdx.x; }
STRATA_DEVICE int64 threads() { return blockDim.x; }
STRATA_DEVICE int64 block() { return blockIdx.x; }
STRATA_DEVICE int64 blocks() { return gridDim.x; }
STRATA_DEVICE void barrier() { __syncthreads(); }
STRATA_DEVICE float to_compute(f16 x) { return __half2float(x); }
STRATA_DEVICE float to_compute(bf16 x) { return __bfloat162float(x); }
STRATA_DEVICE void store(f16& to, float x) { to = __float2half_rn(x); }
STRATA_DEVICE void store(bf16& to, float x) { to = __float2bfloat16_rn(x); }
#if defined(STRATA_HALF_PRECISION)  // all tensors have 16 bits: a few units in the last place of float are nothing
STRATA_DEVICE float exponential(float x) { return __expf(x); }
#else
STRATA_DEVICE float exponential(float x) { return expf(x); }
#endif
STRATA_DEVICE double exponential(double x) { return exp(x); }
STRATA_DEVICE float square_root(float x) { return sqrtf(x); }
STRATA_DEVICE double square_root(double x) { return sqrt(x); }
#else
/// IEEE half precision, as bits: conversions round to nearest even.
struct f16 {
  std::uint16_t bits;
};
struct bf16 {
  std::uint16_t bits;
};
#if defined(STRATA_HOST_THREADS)
int64 thread();
int64 threads();
void barrier();
#else
STRATA_DEVICE int64 thread() { return 0; }
STRATA_DEVICE int64 threads() { return 1; }
STRATA_DEVICE void barrier() {}
#endif
int64 block();
int64 blocks();
STRATA_DEVICE float to_compute(f16 x) {
  const int exponent = (x.bits >> 10) & 31;
  const int mantissa = x.bits & 1023;
  const float magnitude = exponent == 0    ? std::ldexp(static_cast<float>(mantissa), -24)
                          : exponent == 31 ? (mantissa == 0 ? HUGE_VALF : std::nanf(""))
                                           : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  return (x.bits >> 15) != 0 ? -magnitude : magnitude;
}
STRATA_DEVICE float to_compute(bf16 x) {
  const std::uint32_t word = static_cast<std::uint32_t>(x.bits) << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}
STRATA_DEVICE void store(f16& to, float x) {
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const float magnitude = std::fabs(x);
  if (std::isnan(x)) {
    to.bits = 0x7e00;
  } else if (magnitude >= 65520.0f) {
    to.bits = static_cast<std::uint16_t>(sign | 0x7c00);
  } else if (magnitude < 0x1p-14f) {
    to.bits = static_cast<std::uint16_t>(sign | static_cast<int>(std::nearbyint(std::ldexp(magnitude, 24))));
  } else {
    const int exponent = std::ilogb(magnitude);
    // A mantissa that rounds up to 2048 carries into the exponent, as it should.
    const int mantissa = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
    to.bits = static_cast<std::uint16_t>(sign | (((exponent + 14) << 10) + mantissa));
  }
}
STRATA_DEVICE void store(bf16& to, float x) {
  std::uint32_t word;
  std::memcpy(&word, &x, sizeof word);
  word = std::isnan(x) ? 0x7fc00000u : word + 0x7fff + ((word >> 16) & 1);
  to.bits = static_cast<std::uint16_t>(word >> 16);
}
STRATA_DEVICE float exponential(float x) { return std::exp(x); }
STRATA_DEVICE double exponential(double x) { return std::exp(x); }
STRATA_DEVICE float square_root(float x) { return std::sqrt(x); }
STRATA_DEVICE double square_root(double x) { return std::sqrt(x); }
#endif

STRATA_DEVICE float to_compute(float x) { return x; }
STRATA_DEVICE double to_compute(double x) { return x; }
STRATA_DEVICE void store(float& to, float x) { to = x; }
STRATA_DEVICE void store(double& to, double x) { to = x; }

/// The threads that share an operator's elements.
struct BlockTeam {
  STRATA_DEVICE static int64 rank() { return thread(); }
  STRATA_DEVICE static int64 size() { return threads(); }
};
struct GridTeam {
  STRATA_DEVICE static int64 rank() { return block() * threads() + thread(); }
  STRATA_DEVICE static int64 size() { return blocks() * threads(); }
};

/// The type in which values of a stored type are computed.
template <class T>
struct ComputeOf {
  using Type = float;
};
template <>
struct ComputeOf<double> {
  using Type = double;
};
template <class T>
using Compute = typename ComputeOf<T>::Type;

/// The larger; NaN where one is NaN.
template <class T>
STRATA_DEVICE T maximum(T a, T b) {
  return a > b || a != a ? a : b;
}

/// x/2 · (1 + tanh(√(2/π)·(x + 0.044715·x³))), by one exponential.
template <class T>
STRATA_DEVICE T gelu(T x) {
  constexpr T factor = T(-123637) / T(77478);
  constexpr T cubic = T(8943) / T(200000);
  return x / (T(1) + exponential(factor * (x + cubic * x * x * x)));
}

/// Sizes of up to 8 dimensions, outermost first.
template <int64... kSizes>
struct Dims {
  static constexpr int kRank = sizeof...(kSizes);
  STRATA_DEVICE static constexpr int64 size(int d) {
    constexpr int64 sizes[] = {kSizes..., 1};
    return sizes[d];
  }
  STRATA_DEVICE static constexpr int64 count() { return (int64{1} * ... * kSizes); }
};

/// Σ index_d · stride_d, where index is the multi-index of `linear` in Shape and Strides holds strides.
template <class Shape, class Strides>
STRATA_DEVICE int64 offset_of(int64 linear) {
  int64 offset = 0;
#pragma unroll
  for (int d = Shape::kRank - 1; d >= 0; --d) {
    offset += linear % Shape::size(d) * Strides::size(d);
    linear /= Shape::size(d);
  }
  return offset;
}

/// tile[i] = whole[base + …]: Shape is the tile's, Strides are the whole's.
template <class Shape, class Strides, class T>
STRATA_DEVICE void load_tile(T* tile, const T* whole, int64 base) {
  for (int64 i = thread(); i < Shape::count(); i += threads()) tile[i] = whole[base + offset_of<Shape, Strides>(i)];
}

/// The reverse, with rounding to the stored type.
template <class Shape, class Strides, class T, class X>
STRATA_DEVICE void store_tile(T* whole, int64 base, const X* tile) {
  for (int64 i = thread(); i < Shape::count(); i += threads()) {
    store(whole[base + offset_of<Shape, Strides>(i)], to_compute(tile[i]));
  }
}

/// accum_rescale, first half: the largest reference value so far, and what the old and the new part are multiplied by.
template <int64 kCount, class T, class M>
STRATA_DEVICE void rescale_factors(T* largest, T* before, T* now, const M* reference, int64 iteration) {
  for (int64 i = thread(); i < kCount; i += threads()) {
    const T value = to_compute(reference[i]);
    const T next = iteration == 0 ? value : maximum(largest[i], value);
    before[i] = iteration == 0 ? T{} : exponential(largest[i] - next);
    now[i] = exponential(value - next);
    largest[i] = next;
  }
}

/// Second half, after a barrier: Strides are the factors' in Shape.
template <class Shape, class Strides, class T, class X>
STRATA_DEVICE void accumulate_rescaled(T* sum, const X* part, const T* before, const T* now, int64 iteration) {
  for (int64 i = thread(); i < Shape::count(); i += threads()) {
    const int64 at = offset_of<Shape, Strides>(i);
    const T added = to_compute(part[i]) * now[at];
    sum[i] = iteration == 0 ? added : sum[i] * before[at] + added;
  }
}

/// One lane's part of D = A × B + D for 16 × 16 by 16 × 8: the fragments of PTX's mma.m16n8k16.
struct Fragment {
  /// How many lanes of a warp a thread plays.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
  static constexpr int kLanesHere = 1;
#else
  static constexpr int kLanesHere = 32;
#endif
  unsigned a[4];
  unsigned b[2];
  float d[4];
};

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
STRATA_DEVICE int lane(int) { return static_cast<int>(threadIdx.x % 32); }
STRATA_DEVICE int warp() { return static_cast<int>(threadIdx.x / 32); }
STRATA_DEVICE int warps() { return static_cast<int>(blockDim.x / 32); }
STRATA_DEVICE unsigned bits_of(f16 x) { return __half_as_ushort(x); }
STRATA_DEVICE unsigned bits_of(bf16 x) { return __bfloat16_as_ushort(x); }
#define STRATA_MMA(type)                                                     \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                 \
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(f->d[0]), "+f"(f->d[1]), "+f"(f->d[2]), "+f"(f->d[3])           \
      : "r"(f->a[0]), "r"(f->a[1]), "r"(f->a[2]), "r"(f->a[3]), "r"(f->b[0]), "r"(f->b[1]))
STRATA_DEVICE void multiply_fragments(Fragment* f, f16) { STRATA_MMA("f16"); }
STRATA_DEVICE void multiply_fragments(Fragment* f, bf16) { STRATA_MMA("bf16"); }
#undef STRATA_MMA
#else
inline int lane(int here) { return here; }
inline int warp() { return static_cast<int>(thread()); }
inline int warps() { return static_cast<int>(threads()); }
inline unsigned bits_of(f16 x) { return x.bits; }
inline unsigned bits_of(bf16 x) { return x.bits; }
/// What the instruction does with the fragments of 32 lanes, after the PTX manual's tables.
template <class T>
void multiply_fragments(Fragment* lanes, T) {
  const auto half_of = [](unsigned word, int half) {
    return to_compute(T{static_cast<std::uint16_t>(word >> 16 * half)});
  };
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      float& d = lanes[row % 8 * 4 + column / 2].d[row / 8 * 2 + column % 2];
      for (int k = 0; k < 16; ++k) {
        const unsigned a = lanes[row % 8 * 4 + k % 8 / 2].a[row / 8 + k / 8 * 2];
        d += half_of(a, k % 2) * half_of(lanes[column * 4 + k % 8 / 2].b[k / 8], k % 2);
      }
    }
  }
}
#endif

/// Two neighbours of a 16-bit matrix, in a column or a row; zero outside it, where sizes do not fill the fragments.
template <int kRows, int kColumns, bool kDown, class T>
STRATA_DEVICE unsigned pair_at(const T* matrix, int row, int column) {
  const auto at = [&](int r, int c) { return r < kRows && c < kColumns ? bits_of(matrix[r * kColumns + c]) : 0u; };
  return at(row, column) | at(row + (kDown ? 1 : 0), column + (kDown ? 0 : 1)) << 16;
}

/// Adds A × B to the warp's 16 × 8 results at (row, column).
template <int kM, int kN, int kK, class T>
STRATA_DEVICE void add_product(Fragment* lanes, const T* a, const T* b, int row, int column) {
  for (int k = 0; k < kK; k += 16) {
    for (int here = 0; here < Fragment::kLanesHere; ++here) {
      const int group = lane(here) / 4;
      const int pair = lane(here) % 4 * 2;
      Fragment& f = lanes[here];
#pragma unroll
      for (int r = 0; r < 4; ++r) f.a[r] = pair_at<kM, kK, false>(a, row + group + r % 2 * 8, k + pair + r / 2 * 8);
#pragma unroll
      for (int r = 0; r < 2; ++r) f.b[r] = pair_at<kK, kN, true>(b, k + pair + r * 8, column + group);
    }
    multiply_fragments(lanes, T{});
  }
}

/// add(fragments, batch, row, column) for each 16 × 8 results, one warp each; stores what lies inside.
template <int64 kBatches, int kM, int kN, class R, class Add>
STRATA_DEVICE void on_tensor_cores(R* result, Add add) {
  constexpr int kRowTiles = (kM + 15) / 16;
  constexpr int kColumnTiles = (kN + 7) / 8;
  if (warp() >= warps()) return;  // threads that fill no warp cannot execute the instruction
  for (int tile = warp(); tile < kBatches * kRowTiles * kColumnTiles; tile += warps()) {
    const int batch = tile / (kRowTiles * kColumnTiles);
    const int row = tile / kColumnTiles % kRowTiles * 16;
    const int column = tile % kColumnTiles * 8;
    Fragment lanes[Fragment::kLanesHere] = {};
    add(lanes, batch, row, column);
    for (int here = 0; here < Fragment::kLanesHere; ++here) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int i = row + lane(here) / 4 + r / 2 * 8;
        const int j = column + lane(here) % 4 * 2 + r % 2;
        if (i < kM && j < kN) store(result[(batch * kM + i) * kN + j], lanes[here].d[r]);
      }
    }
  }
}

/// Tensor cores multiply tiles of 16 bits; a computed tensor is float and is not rounded for their sake.
template <class Team, class A, class B>
constexpr bool kTensorCores = false;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // nvcc without -arch compiles for less
template <>
inline constexpr bool kTensorCores<BlockTeam, f16, f16> = true;
template <>
inline constexpr bool kTensorCores<BlockTeam, bf16, bf16> = true;
#endif

/// Σ_k x[k] · y[k · kN]. Four sums hide the latency of shared memory.
template <int64 kK, int64 kN, class X, class Y>
STRATA_DEVICE Compute<X> dot(const X* x, const Y* y) {
  Compute<X> sums[4] = {0, 0, 0, 0};
  int64 k = 0;
  for (; k + 4 <= kK; k += 4) {
#pragma unroll
    for (int u = 0; u < 4; ++u) sums[u] += to_compute(x[k + u]) * to_compute(y[(k + u) * kN]);
  }
  for (; k < kK; ++k) sums[0] += to_compute(x[k]) * to_compute(y[k * kN]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// result = A × B for each of the batch; strides of the operands' batch dimensions are 0 where they broadcast.
template <class Team, class Batch, class StridesA, class StridesB, int64 kM, int64 kN, int64 kK, class R, class A,
          class B>
STRATA_DEVICE void matmul(R* result, const A* a, const B* b) {
  if constexpr (kTensorCores<Team, A, B>) {
    if (warps() > 0) {
      return on_tensor_cores<Batch::count(), kM, kN>(result, [&](Fragment* lanes, int batch, int row, int column) {
        add_product<kM, kN, kK>(lanes, a + offset_of<Batch, StridesA>(batch), b + offset_of<Batch, StridesB>(batch),
                                row, column);
      });
    }
  }
  for (int64 i = Team::rank(); i < Batch::count() * kM * kN; i += Team::size()) {
    const int64 batch = i / (kN * kM);
    const A* x = a + offset_of<Batch, StridesA>(batch) + i / kN % kM * kK;
    store(result[i], dot<kK, kN>(x, b + offset_of<Batch, StridesB>(batch) + i % kN));
  }
}

/// result = A × C + B × D.
template <class Team, class Batch, class StridesA, class StridesC, class StridesB, class StridesD, int64 kM, int64 kN,
          int64 kK, int64 kL, class R, class A, class B, class C, class D>
STRATA_DEVICE void concat_matmul(R* result, const A* a, const B* b, const C* c, const D* d) {
  if constexpr (kTensorCores<Team, A, C> && kTensorCores<Team, B, D>) {
    if (warps() > 0) {
      return on_tensor_cores<Batch::count(), kM, kN>(result, [&](Fragment* lanes, int batch, int row, int column) {
        add_product<kM, kN, kK>(lanes, a + offset_of<Batch, StridesA>(batch), c + offset_of<Batch, StridesC>(batch),
                                row, column);
        add_product<kM, kN, kL>(lanes, b + offset_of<Batch, StridesB>(batch), d + offset_of<Batch, StridesD>(batch),
                                row, column);
      });
    }
  }
  for (int64 i = Team::rank(); i < Batch::count() * kM * kN; i += Team::size()) {
    const int64 batch = i / (kN * kM);
    const int64 row = i / kN % kM;
    const int64 column = i % kN;
    store(result[i], dot<kK, kN>(a + offset_of<Batch, StridesA>(batch) + row * kK,
                                 c + offset_of<Batch, StridesC>(batch) + column) +
                         dot<kL, kN>(b + offset_of<Batch, StridesB>(batch) + row * kL,
                                     d + offset_of<Batch, StridesD>(batch) + column));
  }
}

/// Reduction of groups of kGroup elements that lie kInner apart.
template <class Team, int64 kCount, int64 kGroup, int64 kInner, class R, class X>
STRATA_DEVICE void sum(R* result, const X* x) {
  for (int64 i = Team::rank(); i < kCount; i += Team::size()) {
    const X* first = x + i / kInner * kGroup * kInner + i % kInner;
    Compute<X> value = 0;
    for (int64 g = 0; g < kGroup; ++g) value += to_compute(first[g * kInner]);
    store(result[i], value);
  }
}

/// x[n, c, h, w] * filter[o, c, i, j] → [n, o, kRows, kColumns].
template <class Team, int64 kN, int64 kC, int64 kH, int64 kW, int64 kO, int64 kRows, int64 kColumns, int64 kI, int64 kJ,
          int64 kStride, int64 kPadding, class R, class X, class Y>
STRATA_DEVICE void conv2d(R* result, const X* x, const Y* filter) {
  for (int64 at = Team::rank(); at < kN * kO * kRows * kColumns; at += Team::size()) {
    const int64 top = at / kColumns % kRows * kStride - kPadding;
    const int64 left = at % kColumns * kStride - kPadding;
    const X* image = x + at / (kColumns * kRows * kO) * kC * kH * kW;
    const Y* weights = filter + at / (kColumns * kRows) % kO * kC * kI * kJ;
    Compute<X> value = 0;
    for (int64 c = 0; c < kC; ++c) {
      for (int64 i = 0; i < kI; ++i) {
        if (top + i < 0 || top + i >= kH) continue;
        for (int64 j = 0; j < kJ; ++j) {
          if (left + j < 0 || left + j >= kW) continue;
          value += to_compute(image[(c * kH + top + i) * kW + left + j]) * to_compute(weights[(c * kI + i) * kJ + j]);
        }
      }
    }
    store(result[at], value);
  }
}

template <class Team, int64 kCount, int64 kGroup, int64 kInner, class R, class X>
STRATA_DEVICE void reduce_max(R* result, const X* x) {
  for (int64 i = Team::rank(); i < kCount; i += Team::size()) {
    const X* first = x + i / kInner * kGroup * kInner + i % kInner;
    Compute<X> value = to_compute(first[0]);
    for (int64 g = 1; g < kGroup; ++g) value = maximum(value, to_compute(first[g * kInner]));
    store(result[i], value);
  }
}

/// result[i] = x[Σ index_d · stride_d]: transposes and reshapes.
template <class Team, class Shape, class Strides, class R, class X>
STRATA_DEVICE void gather(R* result, const X* x) {
  for (int64 i = Team::rank(); i < Shape::count(); i += Team::size()) {
    store(result[i], to_compute(x[offset_of<Shape, Strides>(i)]));
  }
}

/// kTimes copies of each run of kRow elements, one after the other.
template <class Team, int64 kCount, int64 kRow, int64 kTimes, class R, class X>
STRATA_DEVICE void repeat(R* result, const X* x) {
  for (int64 i = Team::rank(); i < kCount; i += Team::size()) {
    store(result[i], to_compute(x[i / (kRow * kTimes) * kRow + i % kRow]));
  }
}

/// Runs of kPart elements to places kWhole apart, `first` elements in: one operand of a concatenation.
template <class Team, int64 kCount, int64 kPart, int64 kWhole, class R, class X>
STRATA_DEVICE void place(R* result, int64 first, const X* x) {
  for (int64 i = Team::rank(); i < kCount; i += Team::size()) {
    store(result[i / kPart * kWhole + first + i % kPart], to_compute(x[i]));
  }
}

}  // namespace strata_device
