// Tiles in registers: what block functions with products on tensor cores are made of. Appended to strata_device.h where
// a kernel needs it.
//
// A warp holds a tile of rows × columns as 8 × 8 blocks. In each block, lane l holds the two elements of row l / 4 in
// columns 2·(l mod 4) and the next: the fragment that mma.m16n8k16 reads and writes and that ldmatrix makes of 16-bit
// elements. So results of products, operands of products and everything between them have one layout, and values pass
// from operator to operator without leaving the lane. A tile of one row is replicated over the rows of a block, one of
// one column over its columns: what a reduction leaves, and what broadcasting needs.

namespace strata_device {

/// kBatches matrices of kRows × kColumns in the registers of a warp.
template <int kBatches_, int kRows_, int kColumns_>
struct Tile {
  static constexpr int kBatches = kBatches_;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kRowBlocks = (kRows + 7) / 8;
  static constexpr int kColumnBlocks = (kColumns + 7) / 8;
  static constexpr int kPair = kColumns == 1 ? 1 : 2;  // elements of a block in a lane
  static constexpr int kRegisters = kBatches * kRowBlocks * kColumnBlocks * kPair;
  float v[kRegisters];

  STRATA_DEVICE static constexpr int at(int batch, int row_block, int column_block, int e) {
    return ((batch * kRowBlocks + row_block) * kColumnBlocks + column_block) * kPair + e;
  }
  STRATA_DEVICE static constexpr int batch_of(int i) { return i / (kRowBlocks * kColumnBlocks * kPair); }
  STRATA_DEVICE static constexpr int row_block_of(int i) { return i / (kColumnBlocks * kPair) % kRowBlocks; }
  STRATA_DEVICE static constexpr int column_block_of(int i) { return i / kPair % kColumnBlocks; }
  /// The register of From that belongs to register i here, where From broadcasts to this tile.
  template <class From>
  STRATA_DEVICE static constexpr int source(int i) {
    return From::at(From::kBatches == 1 ? 0 : batch_of(i), From::kRows == 1 ? 0 : row_block_of(i),
                    From::kColumns == 1 ? 0 : column_block_of(i), From::kPair == 1 ? 0 : i % kPair);
  }
  /// Row and column of register i in this lane; past the end in blocks that the tile does not fill.
  STRATA_DEVICE static int row(int i) { return kRows == 1 ? 0 : row_block_of(i) * 8 + lane() / 4; }
  STRATA_DEVICE static int column(int i) {
    return kColumns == 1 ? 0 : column_block_of(i) * 8 + lane() % 4 * 2 + i % kPair;
  }
};

template <class TileType>
STRATA_DEVICE TileType filled(float value) {
  TileType tile;
#pragma unroll
  for (int i = 0; i < TileType::kRegisters; ++i) tile.v[i] = value;
  return tile;
}

/// Along which of a tile's indices the elements of an iota count.
struct AlongNothing {
  template <class TileType>
  STRATA_DEVICE static int index(int) {
    return 0;
  }
};
struct AlongRows {
  template <class TileType>
  STRATA_DEVICE static int index(int i) {
    return TileType::row(i);
  }
};
struct AlongColumns {
  template <class TileType>
  STRATA_DEVICE static int index(int i) {
    return TileType::column(i);
  }
};
/// Rows are several dimensions, of which one counts: it has kSize elements, and those inside it kInner together.
template <int kInner, int kSize>
struct AlongSomeRows {
  template <class TileType>
  STRATA_DEVICE static int index(int i) {
    return TileType::row(i) / kInner % kSize;
  }
};

/// A tile of an iota, whose first element is `first`: nothing of it is in memory.
template <class TileType, class Along>
STRATA_DEVICE TileType counted(float first, float step) {
  TileType tile;
#pragma unroll
  for (int i = 0; i < TileType::kRegisters; ++i) {
    tile.v[i] = first + step * static_cast<float>(Along::template index<TileType>(i));
  }
  return tile;
}

/// A product with one column from what multiply() added up, a tile of two columns: an instruction has eight, and they
/// are all the same, since a side with one row is the same in all rows of a block.
template <class To, class From>
STRATA_DEVICE To first_column(const From& from) {
  static_assert(To::kColumns == 1 && From::kColumns == 2 && 2 * To::kRegisters == From::kRegisters);
  To to;
#pragma unroll
  for (int i = 0; i < To::kRegisters; ++i) to.v[i] = from.v[2 * i];
  return to;
}

/// The register of From that belongs to register i of To, where From broadcasts to To.
template <class From, class To>
STRATA_DEVICE constexpr int broadcast(int i) {
  return To::template source<From>(i);
}

/// Sum and maximum as a reduction needs them.
struct Adding {
  STRATA_DEVICE static float neutral() { return 0.0f; }
  STRATA_DEVICE static float combine(float a, float b) { return a + b; }
};
struct Taking {
  STRATA_DEVICE static float neutral() { return minus_infinity(); }
  STRATA_DEVICE static float combine(float a, float b) { return maximum(a, b); }
};

/// What each lane holds of the columns of each row (kAlongColumns), or of the rows of each column, reduced.
template <class Combine, bool kAlongColumns, class From>
STRATA_DEVICE auto reduce_in_lane(const From& from) {
  using To = Tile<From::kBatches, kAlongColumns ? From::kRows : 1, kAlongColumns ? 1 : From::kColumns>;
  constexpr bool kFull = kAlongColumns ? From::kColumns % 8 == 0 : From::kRows % 8 == 0;
  To to = filled<To>(Combine::neutral());
#pragma unroll
  for (int i = 0; i < From::kRegisters; ++i) {
    const bool inside = kFull || (kAlongColumns ? From::column(i) < From::kColumns : From::row(i) < From::kRows);
    float& sum = to.v[To::at(From::batch_of(i), kAlongColumns ? From::row_block_of(i) : 0,
                             kAlongColumns ? 0 : From::column_block_of(i), kAlongColumns ? 0 : i % From::kPair)];
    sum = Combine::combine(sum, inside ? from.v[i] : Combine::neutral());
  }
  return to;
}

/// The rest: among the lanes that share a row or column; every one of them has the result.
template <class Combine, bool kAlongColumns, class TileType>
STRATA_DEVICE TileType reduce_across_lanes(TileType tile) {
#pragma unroll
  for (int i = 0; i < TileType::kRegisters; ++i) {
#pragma unroll
    for (int mask = kAlongColumns ? 1 : 4; mask < (kAlongColumns ? 4 : 32); mask *= 2) {
      tile.v[i] = Combine::combine(tile.v[i], shuffle_xor(tile.v[i], mask));
    }
  }
  return tile;
}

template <class Combine, bool kAlongColumns, class From>
STRATA_DEVICE auto reduce(const From& from) {
  const auto to = reduce_in_lane<Combine, kAlongColumns>(from);
  if constexpr (kAlongColumns ? From::kColumns == 1 : From::kRows == 1) return to;  // all lanes have it
  return reduce_across_lanes<Combine, kAlongColumns>(to);
}

/// A tile in shared memory as it lies in device memory: kBatches × kRows rows of kColumns elements. The 16-byte chunks
/// of a row are permuted, or rows are a chunk apart, so that 8 rows' chunks in one column lie in different banks. Rows
/// of whole 128-byte lines are cut into panels of one line: the layout that wgmma calls 128-byte swizzling.
template <class T_, int kBatches_, int kRows_, int kColumns_>
struct SharedTile {
  using T = T_;
  static constexpr int kBatches = kBatches_;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kPerChunk = 16 / static_cast<int>(sizeof(T));
  static constexpr int kChunks = (kColumns + kPerChunk - 1) / kPerChunk;
  static constexpr bool kPanels = kChunks % 8 == 0;
  // Panels begin where the pattern of 8 rows begins; one row has no pattern.
  static constexpr int kPanelRows = kBatches * kRows == 1 ? 1 : (kBatches * kRows + 7) / 8 * 8;
  static constexpr int kPanelBytes = kPanelRows * 128;
  static constexpr bool kPermuted = (kChunks & (kChunks - 1)) == 0;
  static constexpr int kStride =
      16 * (kPermuted || kPanels || kChunks % 2 == 1 ? kChunks : kChunks + 1);  // bytes, row to row
  static constexpr int kBytes = (kPanels ? kPanelRows : kBatches * kRows) * kStride;

  /// Where a chunk lies, in bytes; `row` counts through all batches.
  STRATA_DEVICE static int offset(int row, int chunk) {
    if constexpr (kPanels) return chunk / 8 * kPanelBytes + row * 128 + (chunk % 8 ^ row % 8) * 16;
    if constexpr (kPermuted) {
      constexpr int kMixed = kChunks < 8 ? kChunks : 8;  // rows that share 128 bytes need no permutation
      chunk ^= row / (8 / kMixed) % kMixed;
    }
    return row * kStride + chunk * 16;
  }
  STRATA_DEVICE static float element(const unsigned char* tile, int row, int column) {
    const unsigned char* chunk = tile + offset(row, column / kPerChunk);
    return to_compute(reinterpret_cast<const T*>(chunk)[column % kPerChunk]);
  }
};

/// One copy of kBytes: element `first` of a row of the stored tile from `source`.
template <class Shared, int kBytes>
STRATA_DEVICE void copy_piece(unsigned char* to, int row, int piece, const typename Shared::T* source) {
  unsigned char* target = to + Shared::offset(row, piece * kBytes / 16) + piece * kBytes % 16;
  if constexpr (kBytes >= 4) {
    copy_async<kBytes>(target, source);
  } else {
    *reinterpret_cast<typename Shared::T*>(target) = *source;
  }
}

/// A tile of device memory to `to`, also in device memory, as it is to lie in shared memory. Strides are in elements.
template <class Team, class Shared, int64 kRowStride, int64 kBatchStride>
STRATA_DEVICE void pack_tile(unsigned char* to, const typename Shared::T* from) {
  for (int64 at = Team::rank(); at < int64{Shared::kBatches} * Shared::kRows * Shared::kColumns; at += Team::size()) {
    const int row = static_cast<int>(at / Shared::kColumns);
    const int column = static_cast<int>(at % Shared::kColumns);
    unsigned char* const chunk = to + Shared::offset(row, column / Shared::kPerChunk);
    reinterpret_cast<typename Shared::T*>(chunk)[column % Shared::kPerChunk] =
        from[row / Shared::kRows * kBatchStride + row % Shared::kRows * kRowStride + column];
  }
}

/// Starts copies of a tile from device memory, kBytes at a time, by kThreads threads of which this one is `rank`. The
/// row stride and the batch stride are in elements. Each thread steps from piece to piece without divisions: what a
/// copy costs beside the memory's time is its address.
template <class Shared, int kBytes, int kThreads, int64 kRowStride, int64 kBatchStride>
STRATA_DEVICE void copy_tile(unsigned char* to, const typename Shared::T* from, int rank) {
  constexpr int kElements = kBytes / static_cast<int>(sizeof(typename Shared::T));
  constexpr int kPieces = Shared::kColumns / kElements;  // of a row
  constexpr int kRows = Shared::kBatches * Shared::kRows;
  constexpr int kSteps = (kRows * kPieces + kThreads - 1) / kThreads;
  const auto source_of = [&](int row, int piece) {
    const int64 batch = Shared::kBatches == 1 ? 0 : row / Shared::kRows;
    const int64 within = Shared::kBatches == 1 ? row : row % Shared::kRows;
    return from + batch * kBatchStride + within * kRowStride + piece * kElements;
  };
  int row = rank / kPieces;
  int piece = rank % kPieces;
  if constexpr (kThreads % kPieces == 0 && Shared::kBatches == 1) {  // always the same column
    const typename Shared::T* const first = source_of(row, piece);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int down = step * (kThreads / kPieces);
      if (kRows * kPieces % kThreads != 0 && row + down >= kRows) break;
      copy_piece<Shared, kBytes>(to, row + down, piece, first + down * kRowStride);
    }
  } else {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (kRows * kPieces % kThreads != 0 && row >= kRows) break;
      copy_piece<Shared, kBytes>(to, row, piece, source_of(row, piece));
      row += kThreads / kPieces;
      piece += kThreads % kPieces;
      if (piece >= kPieces) {
        piece -= kPieces;
        ++row;
      }
    }
  }
}

/// One side of a product: the fragments of kRows × k, pairs along k, straight from shared memory. Row r and element k
/// are at row first + r and column k of the stored tile, or at row k and column first + r where kAcross; `above` rows
/// of earlier batches lie before. One batch serves all of the product's where kBroadcast.
template <class Shared, bool kAcross, int kRows, bool kBroadcast>
struct SharedOperand {
  static constexpr int kRowBlocks = (kRows + 7) / 8;
  static constexpr int kRowPairs = (kRowBlocks + 1) / 2;
  /// Whether tensor cores can read it by themselves.
  static constexpr bool kDescribed = Shared::kPanels && sizeof(typename Shared::T) == 2;
  const unsigned char* tile;
  int first;
  int above;

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
  /// What wgmma is told of elements 16·k … 16·k + 15 of all rows of four warps together: place, distances of panels and
  /// of 8 rows, swizzling.
  STRATA_DEVICE unsigned long long descriptor(int k) const {
    const int lines = first / 64;
    const int offset = kAcross ? lines * Shared::kPanelBytes + k * 16 * 128
                               : lines * 64 * 128 + k / 4 * Shared::kPanelBytes + k % 4 * 32;
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(tile)) + offset;
    constexpr unsigned long long kPanel = Shared::kPanelBytes / 16;
    constexpr unsigned long long kEightRows = 8 * 128 / 16;
    return (address & 0x3ffff) / 16 | (kPanel & 0x3fff) << 16 | kEightRows << 32 | 1ull << 62;
  }
#endif

  /// Where row l mod 8 of block r begins that lane l asks for, in blocks k of elements. Past the end it asks for
  /// others, whose products nobody reads.
  STRATA_DEVICE int offset_of(int batch, int r, int k, int l) const {
    const int stored = above + (kBroadcast ? 0 : batch * Shared::kRows);
    if constexpr (kAcross) {
      return Shared::offset(stored + k * 8 + l % 8, first / 8 + (r < kRowBlocks ? r : kRowBlocks - 1));
    } else {
      const int row = r * 8 + l % 8;
      return Shared::offset(stored + first + (row < kRows ? row : kRows - 1), k);
    }
  }

  /// As the instruction's rows: the four words of two blocks in the order in which it reads them.
  STRATA_DEVICE void load_rows(int batch, int k_block, unsigned (&f)[kRowPairs][4]) const {
    const int l = lane();
#pragma unroll
    for (int pair = 0; pair < kRowPairs; ++pair)
      ldmatrix<4, kAcross>(f[pair], tile + offset_of(batch, 2 * pair + l / 8 % 2, k_block + l / 16, l));
  }

  /// As its columns: two words of each block.
  STRATA_DEVICE void load(int batch, int k_block, unsigned (&f)[kRowBlocks][2]) const {
    const int l = lane();
#pragma unroll
    for (int block = 0; block < kRowBlocks; block += 2) {
      const int offset = offset_of(batch, block + l / 16, k_block + l / 8 % 2, l);
      if (block + 1 < kRowBlocks) {
        unsigned four[4];
        ldmatrix<4, kAcross>(four, tile + offset);
        f[block][0] = four[0], f[block][1] = four[1], f[block + 1][0] = four[2], f[block + 1][1] = four[3];
      } else {
        ldmatrix<2, kAcross>(f[block], tile + offset);
      }
    }
  }
};

/// Fragments that are in registers, rounded to T, two in a word.
template <class T, int kBatches, int kRows, int kK>
struct Packed {
  static constexpr int kRowBlocks = (kRows + 7) / 8;
  static constexpr int kRowPairs = (kRowBlocks + 1) / 2;
  unsigned v[kBatches][kK / 8][kRowBlocks];

  STRATA_DEVICE void load_rows(int batch, int k_block, unsigned (&f)[kRowPairs][4]) const {
#pragma unroll
    for (int pair = 0; pair < kRowPairs; ++pair) {
      const int upper = 2 * pair;
      const int lower = upper + 1 < kRowBlocks ? upper + 1 : upper;  // nobody reads its products
      f[pair][0] = v[batch][k_block][upper], f[pair][1] = v[batch][k_block][lower];
      f[pair][2] = v[batch][k_block + 1][upper], f[pair][3] = v[batch][k_block + 1][lower];
    }
  }

  STRATA_DEVICE void load(int batch, int k_block, unsigned (&f)[kRowBlocks][2]) const {
#pragma unroll
    for (int r = 0; r < kRowBlocks; ++r) {
      f[r][0] = v[batch][k_block][r];
      f[r][1] = v[batch][k_block + 1][r];
    }
  }
};

template <class T, class From>
STRATA_DEVICE auto pack(const From& from) {
  Packed<T, From::kBatches, From::kRows, From::kColumns> to;
#pragma unroll
  for (int i = 0; i < From::kRegisters; i += 2) {
    to.v[From::batch_of(i)][From::column_block_of(i)][From::row_block_of(i)] = pack_pair(from.v[i], from.v[i + 1], T{});
  }
  return to;
}

/// A shared operand's fragments, kept: for tiles that stay while the loop runs.
template <class T, int kBatches, int kRows, int kK, class Operand>
STRATA_DEVICE auto keep(const Operand& operand) {
  Packed<T, kBatches, kRows, kK> to;
#pragma unroll
  for (int batch = 0; batch < kBatches; ++batch) {
#pragma unroll
    for (int k = 0; k < kK / 8; k += 2) {
      unsigned f[Operand::kRowBlocks][2];
      operand.load(batch, k, f);
#pragma unroll
      for (int r = 0; r < Operand::kRowBlocks; ++r) to.v[batch][k][r] = f[r][0], to.v[batch][k + 1][r] = f[r][1];
    }
  }
  return to;
}

/// Whether a side of a product lies in registers, whose numbers must be known: loops over k are unrolled.
template <class Operand>
struct InRegisters {
  static constexpr bool value = true;
};
template <class Shared, bool kAcross, int kRows, bool kBroadcast>
struct InRegisters<SharedOperand<Shared, kAcross, kRows, kBroadcast>> {
  static constexpr bool value = false;
};

/// D += A × Bᵀ for D[kRows, kColumns], A[kRows, kK], B[kColumns, kK], rounded products added in float.
template <class T, int kK, class D, class A, class B>
STRATA_DEVICE void multiply(D& d, const A& a, const B& b) {
#pragma unroll
  for (int batch = 0; batch < D::kBatches; ++batch) {
    // An instruction has two blocks of rows. Of the last one alone nobody reads the lower half.
    float unread[D::kColumnBlocks][2] = {};
    // Long sums are a loop, so that their code stays in the instruction cache.
    constexpr int kSteps = kK / 16;
    constexpr bool kLong = kSteps > 8 && !InRegisters<A>::value && !InRegisters<B>::value;
#pragma unroll kLong ? 4 : kSteps
    for (int k = 0; k < kK / 8; k += 2) {
      unsigned rows[A::kRowPairs][4];
      unsigned columns[B::kRowBlocks][2];
      a.load_rows(batch, k, rows);
      b.load(batch, k, columns);
#pragma unroll
      for (int r = 0; r < D::kRowBlocks; r += 2) {
#pragma unroll
        for (int c = 0; c < D::kColumnBlocks; ++c) {
          float* const upper = &d.v[D::at(batch, r, c, 0)];
          float* const lower = r + 1 < D::kRowBlocks ? &d.v[D::at(batch, r + 1, c, 0)] : unread[c];
          float result[4] = {upper[0], upper[1], lower[0], lower[1]};
          mma(result, rows[r / 2], columns[c], T{});
          upper[0] = result[0], upper[1] = result[1];
          lower[0] = result[2], lower[1] = result[3];
        }
      }
    }
  }
}

/// The two 16-bit numbers of a word.
template <class T>
STRATA_DEVICE void unpack_pair(unsigned word, T, float& low, float& high) {
  T pair[2];
  memcpy(pair, &word, sizeof word);
  low = to_compute(pair[0]);
  high = to_compute(pair[1]);
}

/// load() for whole blocks of 16-bit elements: four blocks of columns at a time.
template <class TileType, class Shared, bool kAcross>
STRATA_DEVICE TileType load_blocks(const unsigned char* tile, int first_row, int first_column) {
  TileType to;
  const int l = lane();
#pragma unroll
  for (int batch = 0; batch < TileType::kBatches; ++batch) {
#pragma unroll
    for (int r = 0; r < TileType::kRowBlocks; ++r) {
#pragma unroll
      for (int first = 0; first < TileType::kColumnBlocks; first += 4) {
        int block = first + l / 8;
        if (TileType::kColumnBlocks % 4 != 0 && block >= TileType::kColumnBlocks) block = first;
        int row = r * 8 + l % 8;
        if (TileType::kRows % 8 != 0 && row >= TileType::kRows) row = TileType::kRows - 1;
        const int stored = batch * Shared::kRows + first_row + (kAcross ? block * 8 + l % 8 : row);
        unsigned words[4];
        ldmatrix<4, kAcross>(words, tile + Shared::offset(stored, first_column / 8 + (kAcross ? r : block)));
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          if (first + w >= TileType::kColumnBlocks) continue;
          const int i = TileType::at(batch, r, first + w, 0);
          unpack_pair(words[w], typename Shared::T{}, to.v[i], to.v[i + 1]);
        }
      }
    }
  }
  return to;
}

/// Nothing that computes or reads the registers moves across this place.
template <class TileType>
STRATA_DEVICE void hold_all([[maybe_unused]] TileType& tile) {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#pragma unroll
  for (int i = 0; i < TileType::kRegisters; ++i) hold(tile.v[i]);
#endif
}
template <class T, int kBatches, int kRows, int kK>
STRATA_DEVICE void hold_all([[maybe_unused]] Packed<T, kBatches, kRows, kK>& side) {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#pragma unroll
  for (int i = 0; i < kBatches * (kK / 8) * Packed<T, kBatches, kRows, kK>::kRowBlocks; ++i) hold(side.v[0][0][i]);
#endif
}

/// Starts multiply() by four warps together, each with 16 rows: Wide is the instruction for D's columns. Tensor cores
/// read B, and A where it lies there, from shared memory: the warps wrote it, or waited for it, before a
/// fence_for_wide_products and a barrier. kFresh: D = A × Bᵀ, whatever D was. D is there, and A and B may change, after
/// wide_products_end and hold_all of D and of A: the compiler knows nothing of the time between.
template <class Wide, class T, int kK, bool kFresh, class D, int kBatches, int kRows, class B>
STRATA_DEVICE void start_wide(D& d, Packed<T, kBatches, kRows, kK>& a, const B& b) {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
  hold_all(a);
  hold_all(d);
  wide_products_begin();
#pragma unroll
  for (int k = 0; k < kK / 16; ++k) {
    const unsigned fragment[4] = {a.v[0][2 * k][0], a.v[0][2 * k][1], a.v[0][2 * k + 1][0], a.v[0][2 * k + 1][1]};
    if (k == 0) Wide::template run<!kFresh>(d, fragment, b.descriptor(k), T{});
    if (k > 0) Wide::template run<true>(d, fragment, b.descriptor(k), T{});
  }
  wide_products_issued();
#else
  if (kFresh) d = filled<D>(0.0f);
  multiply<T, kK>(d, a, b);
#endif
}
template <class Wide, class T, int kK, bool kFresh, class D, class Shared, bool kAcross, int kRows, bool kBroadcast,
          class B>
STRATA_DEVICE void start_wide(D& d, const SharedOperand<Shared, kAcross, kRows, kBroadcast>& a, const B& b) {
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
  hold_all(d);
  wide_products_begin();
#pragma unroll
  for (int k = 0; k < kK / 16; ++k) {
    if (k == 0) Wide::template run<kAcross, !kFresh>(d, a.descriptor(k), b.descriptor(k), T{});
    if (k > 0) Wide::template run<kAcross, true>(d, a.descriptor(k), b.descriptor(k), T{});
  }
  wide_products_issued();
#else
  if (kFresh) d = filled<D>(0.0f);
  multiply<T, kK>(d, a, b);
#endif
}

/// The same from start to end.
template <class Wide, class T, int kK, bool kFresh, class D, int kBatches, int kRows, class B>
STRATA_DEVICE void multiply_wide(D& d, Packed<T, kBatches, kRows, kK> a, const B& b) {
  start_wide<Wide, T, kK, kFresh>(d, a, b);
  wide_products_end();
  hold_all(d);
  hold_all(a);
}
template <class Wide, class T, int kK, bool kFresh, class D, class Shared, bool kAcross, int kRows, bool kBroadcast,
          class B>
STRATA_DEVICE void multiply_wide(D& d, const SharedOperand<Shared, kAcross, kRows, kBroadcast>& a, const B& b) {
  if constexpr (SharedOperand<Shared, kAcross, kRows, kBroadcast>::kDescribed) {
    start_wide<Wide, T, kK, kFresh>(d, a, b);
    wide_products_end();
    hold_all(d);
  } else {
    multiply_wide<Wide, T, kK, kFresh>(d, keep<T, 1, kRows, kK>(a), b);
  }
}

/// Two groups of warps, or halves of one, take turns with the tensor cores: while one computes products, the other
/// computes with what it got from its own. Left to themselves both would want the same at the same time. `half` is 0 or
/// 1, and kThreads are those of one of them; the second gives the first turn away before it waits for its own. Two
/// barriers of the team after kBehind are theirs.
template <class Team, int kBehind, int kThreads>
STRATA_DEVICE void take_turn(int half) {
  named_barrier(Team::kBarrier + kBehind + half, 2 * kThreads);
}
template <class Team, int kBehind, int kThreads>
STRATA_DEVICE void give_turn(int half) {
  named_barrier_arrive(Team::kBarrier + kBehind + (half ^ 1), 2 * kThreads);
}

/// A part of a shared tile in registers: element (r, c) is at row first_row + r, column first_column + c of the stored
/// tile, or at row first_row + c and column first_column + r where kAcross.
template <class TileType, class Shared, bool kAcross>
STRATA_DEVICE TileType load(const unsigned char* tile, int first_row, int first_column) {
  constexpr bool kBlocks = sizeof(typename Shared::T) == 2 && TileType::kColumns % 8 == 0 && TileType::kRows > 1 &&
                           (!kAcross || TileType::kRows % 8 == 0);
  // One row lies in chunks at places that are known: a lane reads its pair of each block of columns.
  constexpr bool kPairs =
      sizeof(typename Shared::T) == 2 && TileType::kColumns % 8 == 0 && TileType::kRows == 1 && !kAcross;
  if constexpr (kBlocks) {
    return load_blocks<TileType, Shared, kAcross>(tile, first_row, first_column);
  } else if constexpr (kPairs) {
    TileType to;
#pragma unroll
    for (int i = 0; i < TileType::kRegisters; i += 2) {
      const int row = TileType::batch_of(i) * Shared::kRows + first_row;
      const int at = Shared::offset(row, first_column / 8 + TileType::column_block_of(i)) + lane() % 4 * 4;
      unpack_pair(*reinterpret_cast<const unsigned*>(tile + at), typename Shared::T{}, to.v[i], to.v[i + 1]);
    }
    return to;
  } else {
    TileType to;
#pragma unroll
    for (int i = 0; i < TileType::kRegisters; ++i) {
      int row = TileType::row(i);
      int column = TileType::column(i);
      if (TileType::kRows % 8 != 0 && row >= TileType::kRows) row = TileType::kRows - 1;
      if (TileType::kColumns % 8 != 0 && column >= TileType::kColumns) column = TileType::kColumns - 1;
      const int stored = TileType::batch_of(i) * Shared::kRows + first_row + (kAcross ? column : row);
      to.v[i] = Shared::element(tile, stored, first_column + (kAcross ? row : column));
    }
    return to;
  }
}

/// Stores a tile to device memory, from `to` on; strides in elements.
template <int64 kBatchStride, int64 kRowStride, int64 kColumnStride, class T, class TileType>
STRATA_DEVICE void save(T* to, const TileType& tile) {
#pragma unroll
  for (int i = 0; i < TileType::kRegisters; i += TileType::kPair) {
    const int row = TileType::row(i);
    const int column = TileType::column(i);
    if (TileType::kRows == 1 ? lane() / 4 != 0 : row >= TileType::kRows) continue;
    if (TileType::kColumns == 1 && lane() % 4 != 0) continue;
    T* at = to + TileType::batch_of(i) * kBatchStride + row * kRowStride + column * kColumnStride;
    if constexpr (TileType::kPair == 2 && kColumnStride == 1 && TileType::kColumns % 2 == 0 && kRowStride % 2 == 0 &&
                  kBatchStride % 2 == 0) {
      if (column < TileType::kColumns) store_pair(at, tile.v[i], tile.v[i + 1]);
    } else {
#pragma unroll
      for (int e = 0; e < TileType::kPair; ++e) {
        if (column + e < TileType::kColumns) store(at[e * kColumnStride], tile.v[i + e]);
      }
    }
  }
}

}  // namespace strata_device
