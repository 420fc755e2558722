// Tensors as the tasks of a mega-kernel see them, where block functions (superopt/codegen) expect pointers: tagged
// words of other tasks, what is computed while it is brought, and results that go out as tagged words, or as they lie
// in memory where a counter tells of them. Stands behind the device library and the runtime's core in an image's
// source. `Side` is the core's ComputeSide.
//
// A tensor in tagged words: 8 bytes of data to a word, row after row, so that word i of a row holds elements
// i · kOfWord<T> … of it, whatever tiles they were computed in. Rows are whole words.

namespace strata_device {

template <class T>
constexpr int kOfWord = 8 / static_cast<int>(sizeof(T));

/// A tensor that other tasks wrote in this step, from an element on.
template <class T, class Side, int kPerWord = kOfWord<T>>
struct Words {
  typename Side::TaggedWord* words;
  Side* side;
  int offset;  ///< elements

  STRATA_DEVICE Words operator+(int64 elements) const { return {words, side, offset + static_cast<int>(elements)}; }
  STRATA_DEVICE typename Side::TaggedWord& at(int element) const {
    return words[static_cast<unsigned>(offset + element) / kPerWord];
  }
};

/// A worker's ring as block functions use it (strata_bulk.h, SlotRing).
template <class Side>
struct TaskRing {
  static constexpr bool kSharesMemory = false;
  Side& side;

  STRATA_DEVICE const unsigned char* stage(int n, int bytes) { return side.stage(n, static_cast<unsigned>(bytes)); }
  STRATA_DEVICE void release(int n, int warps) { side.release(n, warps); }
  STRATA_DEVICE void advance(int count, int bytes) { side.advance(count, static_cast<unsigned>(bytes)); }
};

/// What most functions load: stages of equally many bytes, equally far apart, without one of them. A function only says
/// which; one loop loads them for all functions of an image (load_run), so that its code stays in the instruction
/// cache.
struct StageRun {
  const unsigned char* from = nullptr;
  int stages = 0;
  int bytes = 0;        ///< of a stage
  unsigned stride = 0;  ///< bytes from a stage to the next one
  int left_out = -1;    ///< this stage is not loaded: the last one, where there is one
};
STRATA_DEVICE void push_stages(StageRun& run, const unsigned char* from, int stages, int bytes, unsigned stride) {
  run = {from, stages, bytes, stride, -1};
}
template <class Ring>
STRATA_DEVICE void load_run(Ring& ring, const StageRun& run) {
  const unsigned char* from = run.from;
#pragma unroll 1
  for (int n = 0; n < run.stages; ++n, from += run.stride) {
    if (n == run.left_out) continue;
    const int left = run.stages - n - (run.left_out > n ? 1 : 0);
    ring.push(from, static_cast<unsigned>(run.bytes), static_cast<unsigned>(left), run.stride);
  }
}

/// Words place(0) … place(count − 1), dealt to `threads` threads, whole warps, a warp's width at a time: take(n, data)
/// for each, as soon as it has been written in this step (runtime/core/events.h, read_tagged). place(n) is the same in
/// all lanes: one looks for another's. kAtOnce: words that a
/// lane asks for before the first has come.
template <int kAtOnce = 4, class Side, class Place, class Take>
STRATA_DEVICE void gather_words(Side& side, int count, int rank, int threads, const Place& place, const Take& take) {
  const int warps = threads / 32;
  const int warp = rank / 32;
  const int rows = (count + 31) / 32;  // of a warp's width
  const int mine = (rows - warp + warps - 1) / warps;
  const int all = (mine - 1) * 32 + (((mine - 1) * warps + warp) == rows - 1 ? count - (rows - 1) * 32 : 32);
  const auto number = [&](int n) { return (n / 32 * warps + warp) * 32 + n % 32; };
  side.template read_at<kAtOnce>(
      [&](int n) -> auto& { return place(number(n)); }, mine > 0 ? all : 0,
      [&](int n, const auto& word) { take(number(n), word.data); });
}

/// 8 bytes of a stored tile: word `column` of a row.
template <class Shared>
STRATA_DEVICE unsigned* word_of_tile(unsigned char* tile, int row, int column) {
  return reinterpret_cast<unsigned*>(tile + Shared::offset(row, column / 2) + column % 2 * 8);
}
template <class Shared>
STRATA_DEVICE void put_word(unsigned char* tile, int row, int column, const unsigned (&data)[2]) {
  unsigned* const to = word_of_tile<Shared>(tile, row, column);
  to[0] = data[0];
  to[1] = data[1];
}

template <class Shared, int64 kRowStride, int64 kBatchStride, class T, class Side>
struct Brought<Shared, kRowStride, kBatchStride, Words<T, Side>> {
  static constexpr bool kOneByOne = false;
  static constexpr int kRows = Shared::kBatches * Shared::kRows;
  static constexpr int kWords = Shared::kColumns / kOfWord<T>;  // of a row
  static_assert(Shared::kColumns % kOfWord<T> == 0, "tiles are whole words");

  /// The tiles of all iterations of a group at once, so that their words are on their way together.
  template <int kThreads, int kGroups, int kStride, int kCount, class From>
  STRATA_DEVICE static void bring(unsigned char* to, const From& from, int first, int iterations, int rank) {
    if (first >= iterations) return;
    constexpr int kMost = (kCount * kRows * kWords + kThreads - 1) / kThreads;  // words of a lane
    const int count = (iterations - first + kGroups - 1) / kGroups * kRows * kWords;
    gather_words<(kMost < 4 ? kMost : 4)>(
        *from(0).side, count, rank, kThreads,
        [&](int n) -> auto& {
          const int row = n / kWords % kRows;
          const auto before = static_cast<int>(row / Shared::kRows * kBatchStride + row % Shared::kRows * kRowStride);
          return from(first + n / (kRows * kWords) * kGroups).at(before + n % kWords * kOfWord<T>);
        },
        [&](int n, const unsigned(&data)[2]) {
          put_word<Shared>(to + n / (kRows * kWords) * kStride, n / kWords % kRows, n % kWords, data);
        });
  }
};

template <class Shared, int kBytes, int kThreads, int64 kRowStride, int64 kBatchStride, class T, class Side>
STRATA_DEVICE void bring_tile(unsigned char* to, const Words<T, Side>& from, int rank) {
  Brought<Shared, kRowStride, kBatchStride, Words<T, Side>>::template bring<kThreads, 1, 0, 1>(
      to, [&](int) { return from; }, 0, 1, rank);
}

/// A result in tagged words, kPerWord elements in each: as many as fit, or one where neighbours are other tasks'.
template <class T, class Side, int kPerWord = kOfWord<T>>
struct WordsOut {
  typename Side::TaggedWord* words;
  Side* side;
  int offset;  ///< elements

  STRATA_DEVICE WordsOut operator+(int64 elements) const { return {words, side, offset + static_cast<int>(elements)}; }
  STRATA_DEVICE void put(int element, unsigned low, unsigned high) const {
    side->write(words[static_cast<unsigned>(offset + element) / kPerWord], low, high);
  }
};

/// A result without tags: its readers wait for a counter.
struct Untagged {};
template <class T, int kPerWord>
struct WordsOut<T, Untagged, kPerWord> {
  static_assert(kPerWord == kOfWord<T>, "words are 8 bytes of memory");
  T* memory;

  STRATA_DEVICE WordsOut operator+(int64 elements) const { return {memory + elements}; }
  STRATA_DEVICE void put(int element, unsigned low, unsigned high) const {
    *reinterpret_cast<unsigned long long*>(memory + element) = low | static_cast<unsigned long long>(high) << 32;
  }
};

/// The n-th argument of a task's operator: memory, tagged words that are read, or that are written, or memory that is
/// written.
template <class T, class Descriptor>
STRATA_DEVICE T* argument(const Descriptor& d, int n) {
  return static_cast<T*>(d.arguments[n]);
}
template <class T, int kPerWord = kOfWord<T>, class Descriptor, class Side>
STRATA_DEVICE Words<T, Side, kPerWord> words(const Descriptor& d, Side& side, int n) {
  return {argument<typename Side::TaggedWord>(d, n), &side, 0};
}
template <class T, int kPerWord = kOfWord<T>, class Descriptor, class Side>
STRATA_DEVICE WordsOut<T, Side, kPerWord> words_out(const Descriptor& d, Side& side, int n) {
  return {argument<typename Side::TaggedWord>(d, n), &side, 0};
}

template <class T, class Descriptor>
STRATA_DEVICE WordsOut<T, Untagged> memory_out(const Descriptor& d, int n) {
  return {argument<T>(d, n)};
}

STRATA_DEVICE unsigned bits_of(float x) {
  unsigned bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

STRATA_DEVICE float float_of(unsigned bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/// A tile whose rows lie side by side in memory: a word's elements are in lanes that hold neighbouring rows of the same
/// two columns. Of two such lanes each takes one column's elements of both.
template <int64 kBatchStride, int64 kColumnStride, class T, class Side, int kPerWord, class TileType>
STRATA_DEVICE void save_columns(const WordsOut<T, Side, kPerWord>& to, const TileType& tile) {
  static_assert(TileType::kPair == 2 && TileType::kRows % kPerWord == 0, "words are whole");
  const bool odd = lane() / 4 % 2 == 1;  // row
#pragma unroll
  for (int i = 0; i < TileType::kRegisters; i += 2) {
    const int row = TileType::row(i);
    const int column = TileType::column(i) + (odd ? 1 : 0);
    const bool inside = row < TileType::kRows && column < TileType::kColumns;
    const float other = shuffle_xor(odd ? tile.v[i] : tile.v[i + 1], 4);
    const float low = odd ? other : tile.v[i];
    const float high = odd ? tile.v[i + 1] : other;
    const auto at =
        static_cast<int>(TileType::batch_of(i) * kBatchStride + row / kPerWord * kPerWord + column * kColumnStride);
    if constexpr (kPerWord == 2) {
      if (inside) to.put(at, bits_of(low), bits_of(high));
    } else {
      const unsigned pair = pack_pair(low, high, T{});
      const unsigned next = shuffle_xor(pair, 8);
      if (inside && row % 4 < 2) to.put(at, pair, next);
    }
  }
}

/// The same of a tile of one column: all four lanes of a row have its element.
template <int64 kBatchStride, class T, class Side, int kPerWord, class TileType>
STRATA_DEVICE void save_column(const WordsOut<T, Side, kPerWord>& to, const TileType& tile) {
  static_assert(TileType::kColumns == 1 && TileType::kRows % kPerWord == 0, "words are whole");
#pragma unroll
  for (int i = 0; i < TileType::kRegisters; ++i) {
    const int row = TileType::row(i);
    const bool mine = row < TileType::kRows && row % kPerWord == 0 && lane() % 4 == 0;
    const float next = shuffle_xor(tile.v[i], 4);
    const auto at = static_cast<int>(TileType::batch_of(i) * kBatchStride + row);
    if constexpr (kPerWord == 2) {
      if (mine) to.put(at, bits_of(tile.v[i]), bits_of(next));
    } else {
      const unsigned pair = pack_pair(tile.v[i], next, T{});
      const unsigned next_pair = shuffle_xor(pair, 8);
      if (mine) to.put(at, pair, next_pair);
    }
  }
}

template <int64 kBatchStride, int64 kRowStride, int64 kColumnStride, class T, class Side, int kPerWord, class TileType>
STRATA_DEVICE void save(const WordsOut<T, Side, kPerWord>& to, const TileType& tile) {
  constexpr bool kColumn = kPerWord > 1 && TileType::kColumns == 1 && TileType::kRows > 1 && kRowStride == 1;
  constexpr bool kColumns = !kColumn && kPerWord > 1 && kColumnStride != 1 && kRowStride == 1;
  if constexpr (kColumn) return save_column<kBatchStride>(to, tile);
  if constexpr (kColumns) return save_columns<kBatchStride, kColumnStride>(to, tile);
  static_assert(kPerWord == 1 || kColumn || kColumns || (kColumnStride == 1 && TileType::kColumns % kPerWord == 0),
                "words are whole");
  static_assert(kPerWord > 1 || sizeof(T) == 4, "one float a word");
#pragma unroll
  for (int i = 0; i < TileType::kRegisters; i += TileType::kPair) {
    const int row = TileType::row(i);
    const int column = TileType::column(i);
    const bool mine =
        (TileType::kRows == 1 ? lane() / 4 == 0 : row < TileType::kRows) && (TileType::kColumns > 1 || lane() % 4 == 0);
    const auto at = static_cast<int>(TileType::batch_of(i) * kBatchStride + row * kRowStride + column * kColumnStride);
    if constexpr (kPerWord == 1) {
#pragma unroll
      for (int e = 0; e < TileType::kPair; ++e) {
        if (mine && column + e < TileType::kColumns) to.put(at + e * kColumnStride, bits_of(tile.v[i + e]), 0);
      }
    } else if constexpr (kPerWord == 2) {
      if (mine && column < TileType::kColumns) to.put(at, bits_of(tile.v[i]), bits_of(tile.v[i + 1]));
    } else {
      // Two neighbouring lanes have a word's elements.
      const unsigned pair = pack_pair(tile.v[i], tile.v[i + 1], T{});
      const unsigned next = shuffle_xor(pair, 1);
      if (mine && lane() % 2 == 0 && column < TileType::kColumns) to.put(at, pair, next);
    }
  }
}

}  // namespace strata_device
