// The parts of a decode step that no block graph describes, since they depend on positions: rotary embedding of heads
// as they are brought, the order of keys in the cache, this step's rows of it, and the merge of splits. Written by hand
// (docs/decoding.md says why); attention itself is a generated block function, which reads through these.
//
// Keys of a head lie in tiles of kKeys positions, dealt to the splits of the head in turn: tile t is iteration t /
// splits of split t mod splits. Attention does not care for the order of keys, as long as mask and values have the
// same.

namespace strata_device {

/// Rows of heads that other tasks computed, to be normalised (Qwen3) and rotated: rope.h, with the angles of one
/// position.
template <class T, class Side, int kHeadDim, bool kNorm>
struct HeadRows {
  Words<T, Side> words;
  const T* gain;  ///< [kHeadDim], where kNorm
  const T* cos;   ///< [kHeadDim], of the position
  const T* sin;
  float epsilon;

  STRATA_DEVICE HeadRows operator+(int64 elements) const { return {words + elements, gain, cos, sin, epsilon}; }
};

constexpr int kOfLane = 4;  ///< elements of a row in a lane: one word

/// A lane's elements of a row in memory, by one load.
template <class T>
STRATA_DEVICE void load_of_lane(const T* from, float (&to)[kOfLane]) {
  static_assert(sizeof(T) * kOfLane == 8, "two words");
  struct alignas(8) Words {
    unsigned words[2];
  };
  const Words both = *reinterpret_cast<const Words*>(from);
  unpack_pair(both.words[0], T{}, to[0], to[1]);
  unpack_pair(both.words[1], T{}, to[2], to[3]);
}

/// What a lane multiplies its elements with, all rows alike. Read before the rows are there.
template <int kHeadDim, bool kNorm>
struct Rotation {
  static constexpr int kLanes = kHeadDim / kOfLane;
  float cos[kOfLane], sin[kOfLane], gain[kOfLane];

  template <class T, class Side>
  STRATA_DEVICE explicit Rotation(const HeadRows<T, Side, kHeadDim, kNorm>& from) {
    const int first = lane() % kLanes * kOfLane;
    load_of_lane(from.cos + first, cos);
    load_of_lane(from.sin + first, sin);
    if constexpr (kNorm) {
      load_of_lane(from.gain + first, gain);
    }
    // Elements of the first half get the second half's with the other sign.
#pragma unroll
    for (int e = 0; e < kOfLane; ++e) sin[e] = first < kHeadDim / 2 ? -sin[e] : sin[e];
  }

  /// A lane's part of a row: its four elements after norm and rotation, as two words of T. All lanes of a warp call it;
  /// kLanes lanes, neighbours, have a row.
  template <class T>
  STRATA_DEVICE void apply(T, float epsilon, unsigned (&data)[2]) const {
    float x[kOfLane];
    unpack_pair(data[0], T{}, x[0], x[1]);
    unpack_pair(data[1], T{}, x[2], x[3]);
    if constexpr (kNorm) {
      float squares = x[0] * x[0] + x[1] * x[1] + x[2] * x[2] + x[3] * x[3];
#pragma unroll
      for (int mask = 1; mask < kLanes; mask *= 2) squares += shuffle_xor(squares, mask);
      const float scale = Approximate::inverse_root(squares / kHeadDim + epsilon);
#pragma unroll
      for (int e = 0; e < kOfLane; ++e) x[e] *= scale * gain[e];
    }
    float rotated[kOfLane];
#pragma unroll
    for (int e = 0; e < kOfLane; ++e) rotated[e] = x[e] * cos[e] + shuffle_xor(x[e], kLanes / 2) * sin[e];
    data[0] = pack_pair(rotated[0], rotated[1], T{});
    data[1] = pack_pair(rotated[2], rotated[3], T{});
  }
};

/// Rows of a tile: a warp takes as many at once as its lanes hold. `ready` takes each lane's word, after the rotation.
template <int kRows, int kThreads, class T, class Side, int kHeadDim, bool kNorm, class Ready>
STRATA_DEVICE void each_head_row(const HeadRows<T, Side, kHeadDim, kNorm>& from, int row_stride, int rank,
                                 const Ready& ready) {
  constexpr int kLanes = kHeadDim / kOfLane;
  constexpr int kOfWarp = 32 / kLanes;  // rows
  static_assert(32 % kLanes == 0, "heads of 32, 64 or 128 elements");
  if (rank / 32 * kOfWarp >= kRows) return;
  const Rotation<kHeadDim, kNorm> rotation(from);
  for (int first = rank / 32 * kOfWarp; first < kRows; first += kThreads / 32 * kOfWarp) {
    const int rows = kRows - first < kOfWarp ? kRows - first : kOfWarp;
    unsigned data[2] = {0, 0};
    gather_words<1>(
        *from.words.side, rows * kLanes, lane(),
        32, [&](int n) -> auto& { return from.words.at((first + n / kLanes) * row_stride + n % kLanes * kOfLane); },
        [&](int, const unsigned(&word)[2]) {
          data[0] = word[0];
          data[1] = word[1];
        });
    rotation.apply(T{}, from.epsilon, data);
    if (lane() / kLanes < rows) ready(first + lane() / kLanes, lane() % kLanes, data);
  }
}

template <class Shared, int kBytes, int kThreads, int64 kRowStride, int64 kBatchStride, class T, class Side,
          int kHeadDim, bool kNorm>
STRATA_DEVICE void bring_tile(unsigned char* to, const HeadRows<T, Side, kHeadDim, kNorm>& from, int rank) {
  static_assert(Shared::kColumns == kHeadDim && Shared::kBatches == 1, "whole heads");
  each_head_row<Shared::kRows, kThreads>(
      from, static_cast<int>(kRowStride), rank,
      [&](int row, int word, const unsigned(&data)[2]) { put_word<Shared>(to, row, word, data); });
}

/// Which tiles of a head's cache a split has in a step, this step's position included.
struct HistoryPart {
  int iterations;  ///< tiles of the split
  int own;         ///< of these, the one with this step's position; −1: another split has it
  int row;         ///< in that tile
  int left;        ///< positions of the cache that hold keys

  template <int kKeys, int kSplits>
  STRATA_DEVICE static HistoryPart of(int position, int split) {
    const int last = position / kKeys;  // tile
    HistoryPart part;
    part.iterations = last < split ? 0 : (last - split) / kSplits + 1;
    part.own = last % kSplits == split ? last / kSplits : -1;
    part.row = position % kKeys;
    part.left = position + 1;
    return part;
  }
};

/// The 0/1 mask of keys, computed: element κ of a row is key κ mod kKeys of iteration κ / kKeys mod kIterations of
/// split κ / (kKeys · kIterations).
template <class T, int kKeys, int kIterations, int kSplits>
struct KeyMask {
  int left;  ///< positions that hold keys
  int offset;
  int capacity;  ///< positions of a row

  STRATA_DEVICE KeyMask operator+(int64 elements) const {
    return {left, offset + static_cast<int>(elements), capacity};
  }
  /// The position of the first key of a tile, which this is an element of.
  STRATA_DEVICE int first_position() const {
    const int key = offset % capacity;
    const int tile = key / kKeys % kIterations * kSplits + key / (kKeys * kIterations);
    return tile * kKeys;
  }
};

template <class Shared, int kBytes, int kThreads, int64 kRowStride, int64 kBatchStride, class T, int kKeys,
          int kIterations, int kSplits>
STRATA_DEVICE void bring_tile(unsigned char* to, const KeyMask<T, kKeys, kIterations, kSplits>& from, int rank) {
  static_assert(Shared::kColumns == kKeys, "whole tiles of keys");
  const int left = from.left - from.first_position();
#pragma unroll 1
  for (int n = rank; n < Shared::kBatches * Shared::kRows * Shared::kColumns; n += kThreads) {
    unsigned char* const chunk = to + Shared::offset(n / Shared::kColumns, n % Shared::kColumns / Shared::kPerChunk);
    store(reinterpret_cast<T*>(chunk)[n % Shared::kColumns % Shared::kPerChunk],
          n % Shared::kColumns < left ? 1.0f : 0.0f);
  }
}

/// A worker's ring where the tile with this step's position does not come through it, but lies beside it. kBarrier:
/// where the warp that takes it meets those that bring it, kThreads together; 0: all have met before.
template <class Ring, int kBarrier = 0, int kThreads = 0>
struct HistoryRing {
  static constexpr bool kSharesMemory = Ring::kSharesMemory;
  Ring& ring;
  int own;
  const unsigned char* tile;

  STRATA_DEVICE const unsigned char* stage(int n, int bytes) {
    if (n != own) return ring.stage(n, bytes);
    if constexpr (kBarrier != 0) named_barrier(kBarrier, kThreads);
    return tile;
  }
  STRATA_DEVICE void release(int n, int warps) {
    if (n != own) ring.release(n, warps);
  }
  STRATA_DEVICE void advance(int count, int bytes) { ring.advance(own >= 0 ? count - 1 : count, bytes); }
};

/// A split's tiles, but for the one with this step's position.
STRATA_DEVICE StageRun history_run(const unsigned char* tiles, const HistoryPart& part, int bytes) {
  return {tiles, part.iterations, bytes, static_cast<unsigned>(bytes), part.own};
}

/// Starts copies of the first rows of a stored tile.
template <class Shared, int kThreads>
STRATA_DEVICE void copy_rows(unsigned char* to, const unsigned char* from, int rows, int thread) {
  for (int n = thread; n < rows * Shared::kChunks; n += kThreads) {
    const int at = Shared::offset(n / Shared::kChunks, n % Shared::kChunks);
    copy_async<16>(to + at, from + at);
  }
}

/// By a warp: a row of a stored tile in shared memory, which its lanes have written, to all rows after it.
template <class Shared>
STRATA_DEVICE void repeat_row(unsigned char* tile, int row) {
  struct alignas(16) Chunk {
    unsigned words[4];
  };
  constexpr int kOfChunk = 32 / Shared::kChunks;  // rows that the warp's lanes take at once
  static_assert(32 % Shared::kChunks == 0, "whole rows");
  warp_barrier();
  const int chunk = lane() % Shared::kChunks;
  const Chunk data = *reinterpret_cast<const Chunk*>(tile + Shared::offset(row, chunk));
  for (int to = row + 1 + lane() / Shared::kChunks; to < Shared::kRows; to += kOfChunk)
    *reinterpret_cast<Chunk*>(tile + Shared::offset(to, chunk)) = data;
}

/// Warps that bring the tile with this step's position.
constexpr int kBringers = 4;

/// The tile with this step's position: the rows before it from the cache, this step's key and value from the tasks that
/// made them, which go to the cache as well. The rows after it are hidden, and hold the same key and value: so no score
/// is larger than one that counts, whatever an earlier sequence left in the cache. All of the team call it; the tile is
/// there when its copies have landed and all have met, as the block function does before its loop. The last kBringers
/// warps bring it, while the first ones bring the queries.
template <class Team, class Keys, class Values, int kValuesAt, int kBytes, class T, class Side, int kHeadDim,
          bool kNorm>
STRATA_DEVICE void append_to_history(unsigned char* tile, unsigned char* cached,
                                     const HeadRows<T, Side, kHeadDim, kNorm>& key, const Words<T, Side>& value,
                                     int row) {
  constexpr int kLanes = kHeadDim / kOfLane;
  constexpr int kCopying = kBringers - 2;  // warps
  const int from_last = Team::kWarps - 1 - Team::warp();
  if (from_last == 0) {
    each_head_row<1, 32>(key, 0, lane(), [&](int, int word, const unsigned(&data)[2]) {
      put_word<Keys>(tile, row, word, data);
      put_word<Keys>(cached, row, word, data);
    });
    repeat_row<Keys>(tile, row);
  } else if (from_last == 1) {
    gather_words<1>(
        *value.side, kLanes, lane(), 32, [&](int n) -> auto& { return value.at(n * kOfLane); },
        [&](int n, const unsigned(&data)[2]) {
          put_word<Values>(tile + kValuesAt, row, n, data);
          put_word<Values>(cached + kValuesAt, row, n, data);
        });
    repeat_row<Values>(tile + kValuesAt, row);
  } else if (from_last < kBringers) {
    const int thread = (from_last - 2) * 32 + lane();
    copy_rows<Keys, kCopying * 32>(tile, cached, row, thread);
    copy_rows<Values, kCopying * 32>(tile + kValuesAt, cached + kValuesAt, row, thread);
  }
}

/// The same where a step has several positions of a sequence, all in one tile: `rows` of them up to this task's, whose
/// keys and values come from the tasks that made them; the rows before those are the cache's, of earlier steps.
/// key(n) and value(n) are those of n positions before this one. Each task leaves its own row in the cache.
template <class Team, class Keys, class Values, int kValuesAt, class T, class Key, class Value>
STRATA_DEVICE void append_rows_to_history(unsigned char* tile, unsigned char* cached, int row, int rows, T,
                                          const Key& key, const Value& value) {
  const int first = row + 1 - rows;
  for (int n = Team::warp(); n < rows; n += Team::kWarps) {
    const int before = rows - 1 - n;
    const int at = first + n;
    const int end = before == 0 ? Keys::kRows : at + 1;  // after it: hidden rows, as above
    each_head_row<1, 32>(key(before), 0, lane(), [&](int, int word, const unsigned(&data)[2]) {
      for (int to = at; to < end; ++to) put_word<Keys>(tile, to, word, data);
      if (before == 0) put_word<Keys>(cached, row, word, data);
    });
    const auto from = value(before);
    gather_words<1>(
        *from.side, Values::kColumns / kOfWord<T>, lane(),
        32, [&](int word) -> auto& { return from.at(word * kOfLane); },
        [&](int word, const unsigned(&data)[2]) {
          for (int to = at; to < end; ++to) put_word<Values>(tile + kValuesAt, to, word, data);
          if (before == 0) put_word<Values>(cached + kValuesAt, row, word, data);
        });
  }
  copy_rows<Keys, Team::kThreads>(tile, cached, first, static_cast<int>(Team::rank()));
  copy_rows<Values, Team::kThreads>(tile + kValuesAt, cached + kValuesAt, first, static_cast<int>(Team::rank()));
}

/// Merges what the splits of attention left: Σ_s w_s · o_s / Σ_s w_s · l_s with w_s = exp(m_s − max m). The task has
/// columns [part, part + 1) · kColumns of the kGroup query heads of key-value head `head`, counted through all
/// sequences. Four results are made by a warp, whose lanes have two columns of a split each. References m and sums l
/// are [heads, kSplits, kGroup], one a word; weighted values are [heads, kSplits, kGroup, kHeadDim], two a word. Splits
/// are added in their order.
template <class Team, int kSplits, int kGroup, int kHeadDim, int kColumns, class T, class Side, class SideOut>
STRATA_DEVICE void merge_splits(const Words<float, Side, 1>& references, const Words<float, Side, 1>& sums,
                                const Words<float, Side>& values, const WordsOut<T, SideOut>& out, int head, int part) {
  static_assert(kColumns % kOfWord<T> == 0, "whole words");
  constexpr int kHalf = 16;                      // lanes, a split each
  constexpr int kWords = kColumns / kOfWord<T>;  // of a query head
  for (int word = Team::warp(); word < kGroup * kWords; word += Team::kWarps) {
    const int of_group = word / kWords;
    const int first = part * kColumns + word % kWords * kOfWord<T>;
    float largest = minus_infinity(), total = 0, low = 0, high = 0;
    for (int base = 0; base < kSplits; base += kHalf) {
      const int split = base + lane() % kHalf;
      const bool is_split = split < kSplits;
      // Of word n, whichever lane looks for it: lanes that have no split read the last one's.
      const auto row_of = [&](int n) {
        const int of = base + n % kHalf;
        return (head * kSplits + (of < kSplits ? of : kSplits - 1)) * kGroup + of_group;
      };
      unsigned mixed[2], reference = 0, weighed = 0;  // no array: registers have no numbers
      gather_words<3>(
          *values.side, 3 * 32, lane(), 32,
          [&](int n) -> auto& {
            if (n < 32) return values.at(row_of(n) * kHeadDim + first + n / kHalf * 2);
            return n < 64 ? references.at(row_of(n)) : sums.at(row_of(n));
          },
          [&](int n, const unsigned(&data)[2]) {
            if (n < 32) mixed[0] = data[0], mixed[1] = data[1];
            if (n >= 32 && n < 64) reference = data[0];
            if (n >= 64) weighed = data[0];
          });
      const float m = is_split ? float_of(reference) : minus_infinity();
      float next = m;
#pragma unroll
      for (int mask = 1; mask < kHalf; mask *= 2) next = maximum(next, shuffle_xor(next, mask));
      next = maximum(next, largest);
      const float before = largest == next ? 1.0f : Approximate::exponential(largest - next);
      const float weight = !is_split ? 0.0f : m == next ? 1.0f : Approximate::exponential(m - next);
      float l = weight * float_of(weighed), x = weight * float_of(mixed[0]), y = weight * float_of(mixed[1]);
#pragma unroll
      for (int mask = 1; mask < kHalf; mask *= 2) {
        l += shuffle_xor(l, mask);
        x += shuffle_xor(x, mask);
        y += shuffle_xor(y, mask);
      }
      largest = next;
      total = total * before + l;
      low = low * before + x;
      high = high * before + y;
    }
    const unsigned pair = pack_pair(low / total, high / total, T{});
    const unsigned next = shuffle_xor(pair, kHalf);
    if (lane() == 0) out.put((head * kGroup + of_group) * kHeadDim + first, pair, next);
  }
}

}  // namespace strata_device
