// The device library of generated CUDA: the block-wide operators that a block function is made of. It is part of every
// generated source, after strata_cuda.h; a host compiler reads strata_host.h instead, with one meaning.
//
// Conventions. An operator is called by all threads of a team: of a block, or of the grid where there is no block
// graph. Element i belongs to thread i mod threads of the team, except in products on tensor cores. Teams, shapes and
// strides are template arguments. Values are computed in float (double for f64 programs). `Math` says how functions of
// floats are computed: Exact, or Approximate where all that a function reads has 16 bits.

namespace strata_device {

STRATA_DEVICE float to_compute(float x) { return x; }
STRATA_DEVICE double to_compute(double x) { return x; }
STRATA_DEVICE void store(float& to, float x) { to = x; }
STRATA_DEVICE void store(double& to, double x) { to = x; }

/// The threads of a block that run a block function: kThreads of them, from thread kFirst on, a multiple of 32. They
/// meet at the block's barrier kBarrier; those after it, up to 15, are theirs as well as far as the function needs
/// any. A team that has barrier 0 is a whole block.
template <int kThreads_, int kFirst = 0, int kBarrier_ = 0>
struct BlockTeam {
  static constexpr bool kIsBlock = true;
  static constexpr int kThreads = kThreads_;
  static constexpr int kBarrier = kBarrier_;
  static constexpr int kWarps = kThreads / 32;
  /// Its first threads alone, a multiple of 32: they meet at the next barrier.
  template <int kCount>
  using First = BlockTeam<kCount, kFirst, kBarrier + 1>;
  STRATA_DEVICE static int64 rank() { return thread() - kFirst; }
  STRATA_DEVICE static constexpr int64 size() { return kThreads; }
  STRATA_DEVICE static int warp() { return static_cast<int>(rank()) / 32; }
  /// All of the team meet, and see what the others wrote.
  STRATA_DEVICE static void meet() {
    if constexpr (kBarrier == 0) {
      barrier();
    } else {
      named_barrier(kBarrier, kThreads);
    }
  }
  /// So do `threads` of them, at one of the barriers after it.
  STRATA_DEVICE static void meet(int behind, int threads) { named_barrier(kBarrier + behind, threads); }
};
/// All threads of a launch.
struct GridTeam {
  static constexpr bool kIsBlock = false;
  static constexpr int kWarps = 0;
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

/// x/2 · (1 + tanh(c·(x + 0.044715·x³))), c = 123637/154956, by one exponential.
template <class Math, class T>
STRATA_DEVICE T gelu(T x) {
  constexpr T factor = T(-123637) / T(77478);
  constexpr T cubic = T(8943) / T(200000);
  return Math::quotient(x, T(1) + Math::exponential(factor * (x + cubic * x * x * x)));
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
template <class Team, class Shape, class Strides, class T>
STRATA_DEVICE void load_tile(T* tile, const T* whole, int64 base) {
  for (int64 i = Team::rank(); i < Shape::count(); i += Team::size()) {
    tile[i] = whole[base + offset_of<Shape, Strides>(i)];
  }
}

/// The reverse, with rounding to the stored type.
template <class Team, class Shape, class Strides, class T, class X>
STRATA_DEVICE void store_tile(T* whole, int64 base, const X* tile) {
  for (int64 i = Team::rank(); i < Shape::count(); i += Team::size()) {
    store(whole[base + offset_of<Shape, Strides>(i)], to_compute(tile[i]));
  }
}

/// accum_rescale, first half: the largest reference value so far, and what the old and the new part are multiplied by.
template <class Team, class Math, int64 kCount, class T, class M>
STRATA_DEVICE void rescale_factors(T* largest, T* before, T* now, const M* reference, int64 iteration) {
  for (int64 i = Team::rank(); i < kCount; i += Team::size()) {
    const T value = to_compute(reference[i]);
    const T next = iteration == 0 ? value : maximum(largest[i], value);
    before[i] = iteration == 0 ? T{} : Math::exponential(largest[i] - next);
    now[i] = Math::exponential(value - next);
    largest[i] = next;
  }
}

/// Second half, after a barrier: Strides are the factors' in Shape.
template <class Team, class Shape, class Strides, class T, class X>
STRATA_DEVICE void accumulate_rescaled(T* sum, const X* part, const T* before, const T* now, int64 iteration) {
  for (int64 i = Team::rank(); i < Shape::count(); i += Team::size()) {
    const int64 at = offset_of<Shape, Strides>(i);
    const T added = to_compute(part[i]) * now[at];
    sum[i] = iteration == 0 ? added : sum[i] * before[at] + added;
  }
}

/// Two neighbours of a 16-bit matrix, in a column or a row; zero outside it, where sizes do not fill the fragments.
template <int kRows, int kColumns, bool kDown, class T>
STRATA_DEVICE unsigned pair_at(const T* matrix, int row, int column) {
  const auto at = [&](int r, int c) { return r < kRows && c < kColumns ? bits_of(matrix[r * kColumns + c]) : 0u; };
  return at(row, column) | at(row + (kDown ? 1 : 0), column + (kDown ? 0 : 1)) << 16;
}

/// Adds A × B to the warp's 16 × 8 results at (row, column).
template <int kM, int kN, int kK, class T>
STRATA_DEVICE void add_product(float (&sums)[4], const T* a, const T* b, int row, int column) {
  const int group = lane() / 4;
  const int pair = lane() % 4 * 2;
  for (int k = 0; k < kK; k += 16) {
    unsigned left[4];
    unsigned right[2];
#pragma unroll
    for (int r = 0; r < 4; ++r) left[r] = pair_at<kM, kK, false>(a, row + group + r % 2 * 8, k + pair + r / 2 * 8);
#pragma unroll
    for (int r = 0; r < 2; ++r) right[r] = pair_at<kK, kN, true>(b, k + pair + r * 8, column + group);
    mma(sums, left, right, T{});
  }
}

/// add(sums, batch, row, column) for each 16 × 8 results, one warp each; stores what lies inside.
template <class Team, int64 kBatches, int kM, int kN, class R, class Add>
STRATA_DEVICE void on_tensor_cores(R* result, Add add) {
  constexpr int kRowTiles = (kM + 15) / 16;
  constexpr int kColumnTiles = (kN + 7) / 8;
  if (Team::warp() >= Team::kWarps) return;  // threads that fill no warp cannot execute the instruction
  for (int tile = Team::warp(); tile < kBatches * kRowTiles * kColumnTiles; tile += Team::kWarps) {
    const int batch = tile / (kRowTiles * kColumnTiles);
    const int row = tile / kColumnTiles % kRowTiles * 16;
    const int column = tile % kColumnTiles * 8;
    float sums[4] = {};
    add(sums, batch, row, column);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int i = row + lane() / 4 + r / 2 * 8;
      const int j = column + lane() % 4 * 2 + r % 2;
      if (i < kM && j < kN) store(result[(batch * kM + i) * kN + j], sums[r]);
    }
  }
}

/// Tensor cores multiply tiles of 16 bits; a computed tensor is float and is not rounded for their sake.
template <class A, class B>
constexpr bool kHalfPrecision = false;
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // nvcc without -arch compiles for less
template <>
inline constexpr bool kHalfPrecision<f16, f16> = true;
template <>
inline constexpr bool kHalfPrecision<bf16, bf16> = true;
#endif
template <class Team, class A, class B>
constexpr bool kTensorCores = Team::kIsBlock&& Team::kWarps > 0 && kHalfPrecision<A, B>;

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
    return on_tensor_cores<Team, Batch::count(), kM, kN>(result, [&](float(&sums)[4], int batch, int row, int column) {
      add_product<kM, kN, kK>(sums, a + offset_of<Batch, StridesA>(batch), b + offset_of<Batch, StridesB>(batch), row,
                              column);
    });
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
    return on_tensor_cores<Team, Batch::count(), kM, kN>(result, [&](float(&sums)[4], int batch, int row, int column) {
      add_product<kM, kN, kK>(sums, a + offset_of<Batch, StridesA>(batch), c + offset_of<Batch, StridesC>(batch), row,
                              column);
      add_product<kM, kN, kL>(sums, b + offset_of<Batch, StridesB>(batch), d + offset_of<Batch, StridesD>(batch), row,
                              column);
    });
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
