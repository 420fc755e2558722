// Rows in registers: what block functions without matrix products are made of. Appended after strata_tiles.h where a
// kernel needs it.
//
// A tile is rows × columns. A crew of kCrew neighbouring threads of the team holds a row: thread t of it the columns
// (j·kCrew + t)·kVector + e for e < kVector. The team's kCrews crews take rows in turn. A tile of one row is held by
// all crews, one of one column by all threads of a crew: what a reduction leaves, and what broadcasting needs.

namespace strata_device {

template <class Team, int kRows_, int kColumns_, int kCrew_, int kVector_>
struct RowTile {
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kCrew = kCrew_;
  static constexpr int kCrews = Team::kThreads / kCrew;
  static constexpr int kVector = kColumns == 1 ? 1 : kVector_;
  static constexpr int kSlots = (kRows + kCrews - 1) / kCrews;  // rows of a crew
  static constexpr int kChunks = kColumns == 1 ? 1 : (kColumns + kCrew * kVector - 1) / (kCrew * kVector);
  static constexpr int kRowRegisters = kChunks * kVector;
  static constexpr int kRegisters = kSlots * kRowRegisters;
  float v[kRegisters];

  STRATA_DEVICE static int crew() { return static_cast<int>(Team::rank()) / kCrew; }
  STRATA_DEVICE static int member() { return static_cast<int>(Team::rank()) % kCrew; }
  /// Row and column of register i in this thread; past the end in what the tile does not fill.
  STRATA_DEVICE static int row(int i) { return kRows == 1 ? 0 : i / kRowRegisters * kCrews + crew(); }
  STRATA_DEVICE static int column(int i) {
    return kColumns == 1 ? 0 : (i % kRowRegisters / kVector * kCrew + member()) * kVector + i % kVector;
  }
  /// The register of From that belongs to register i here, where From broadcasts to this tile.
  template <class From>
  STRATA_DEVICE static constexpr int source(int i) {
    return (From::kRows == 1 ? 0 : i / kRowRegisters * From::kRowRegisters) +
           (From::kColumns == 1 ? 0 : i % kRowRegisters);
  }
};

/// Reduces each row; all threads of its crew have the result. `scratch` holds a float for each warp and row slot; where
/// it may still be read from an earlier call, kReused.
template <class Team, class Combine, bool kReused, class From>
STRATA_DEVICE auto reduce_rows(const From& from, float* scratch) {
  using To = RowTile<Team, From::kRows, 1, From::kCrew, 1>;
  constexpr bool kFull = From::kColumns % (From::kCrew * From::kVector) == 0;
  To to;
#pragma unroll
  for (int slot = 0; slot < To::kSlots; ++slot) {
    to.v[slot] = Combine::neutral();
#pragma unroll
    for (int r = 0; r < From::kRowRegisters; ++r) {
      const int i = slot * From::kRowRegisters + r;
      const bool inside = kFull || From::column(i) < From::kColumns;
      to.v[slot] = Combine::combine(to.v[slot], inside ? from.v[i] : Combine::neutral());
    }
#pragma unroll
    for (int mask = 1; mask < (From::kCrew < 32 ? From::kCrew : 32); mask *= 2) {
      to.v[slot] = Combine::combine(to.v[slot], shuffle_xor(to.v[slot], mask));
    }
  }
  if constexpr (From::kCrew > 32) {
    constexpr int kWarps = From::kCrew / 32;  // of a crew
    float* const mine = scratch + From::crew() * kWarps * To::kSlots;
    if constexpr (kReused) Team::meet();
#pragma unroll
    for (int slot = 0; slot < To::kSlots; ++slot) {
      if (lane() == 0) mine[slot * kWarps + From::member() / 32] = to.v[slot];
    }
    Team::meet();
#pragma unroll
    for (int slot = 0; slot < To::kSlots; ++slot) {
      float sum = mine[slot * kWarps + lane() % kWarps];
#pragma unroll
      for (int mask = 1; mask < kWarps; mask *= 2) sum = Combine::combine(sum, shuffle_xor(sum, mask));
      to.v[slot] = sum;
    }
  }
  return to;
}

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Vector {
  T v[kCount];
};

/// A tile from device memory. Row r begins at the offset that RowStrides give its index in RowShape; columns are
/// kColumnStride elements apart. kAligned elements from every kAligned-th column on lie together, aligned.
template <class TileType, class RowShape, class RowStrides, int64 kColumnStride, int kAligned, class T>
STRATA_DEVICE TileType load_rows(const T* from) {
  constexpr int kWidth = kAligned < TileType::kVector ? kAligned : TileType::kVector;
  TileType to;
#pragma unroll
  for (int i = 0; i < TileType::kRegisters; i += kWidth) {
    const int row = TileType::row(i);
    const int column = TileType::column(i);
    const bool inside =
        (TileType::kRows % TileType::kCrews == 0 || row < TileType::kRows) &&
        (TileType::kColumns % (TileType::kCrew * TileType::kVector) == 0 || column + kWidth <= TileType::kColumns);
    Vector<T, kWidth> vector{};
    if (inside) {
      const T* at = from + offset_of<RowShape, RowStrides>(row) + column * kColumnStride;
      vector = *reinterpret_cast<const Vector<T, kWidth>*>(at);
    }
#pragma unroll
    for (int e = 0; e < kWidth; ++e) to.v[i + e] = inside ? to_compute(vector.v[e]) : 0.0f;
  }
  return to;
}

/// The reverse, with rounding to the stored type.
template <class RowShape, class RowStrides, int64 kColumnStride, int kAligned, class T, class TileType>
STRATA_DEVICE void save_rows(T* to, const TileType& tile) {
  constexpr int kWidth = kAligned < TileType::kVector ? kAligned : TileType::kVector;
#pragma unroll
  for (int i = 0; i < TileType::kRegisters; i += kWidth) {
    const int row = TileType::row(i);
    const int column = TileType::column(i);
    if (row >= TileType::kRows || column + kWidth > TileType::kColumns) continue;
    if (TileType::kColumns == 1 && TileType::member() != 0) continue;
    if (TileType::kRows == 1 && TileType::crew() != 0) continue;
    Vector<T, kWidth> vector;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) store(vector.v[e], tile.v[i + e]);
    T* at = to + offset_of<RowShape, RowStrides>(row) + column * kColumnStride;
    *reinterpret_cast<Vector<T, kWidth>*>(at) = vector;
  }
}

}  // namespace strata_device
