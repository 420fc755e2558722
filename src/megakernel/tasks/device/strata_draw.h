// A sequence's next token, drawn from its logits by temperature, top-k and top-p: models/sampling.h, `sample`, whose
// result it has bit for bit. Sums are of integers, so they have no order. Logits have 16 bits, so those of a row have
// at most 2^16 values: what is kept is found in a histogram of these, which the tasks that look for the largest logit
// fill, and the token by narrowing the row down to the part that holds the place drawn. Stands after
// strata_sequence.h and strata_sampling.h.

namespace strata_device {

using uint64 = unsigned long long;

constexpr int kRanks = 1 << 16;
constexpr int kRankBlock = 256;  ///< ranks whose counts are summed together
constexpr int kRankBlocks = kRanks / kRankBlock;

/// Places of logits in their order: larger for larger ones, equal for equal ones. NaN counts as −∞, and −0 as 0.
template <class T>
STRATA_DEVICE int rank_of(T logit) {
  static_assert(sizeof(T) == 2, "logits of 16 bits");
  const float value = to_compute(logit);
  if (value == 0) return 0x8000;
  if (value != value) store(logit, minus_infinity());
  const auto bits = static_cast<int>(bits_of(logit));
  return (bits & 0x8000) != 0 ? 0xffff - bits : bits | 0x8000;
}
template <class T>
STRATA_DEVICE float logit_of(int rank, T) {
  const auto bits = static_cast<unsigned short>((rank & 0x8000) != 0 ? rank & 0x7fff : 0xffff - rank);
  T logit;
  memcpy(&logit, &bits, sizeof bits);
  return to_compute(logit);
}

/// ⌊2^32 · e^x⌋, nearly, as models/sampling.h says.
STRATA_DEVICE uint64 exponential_weight(float x) {
  constexpr float kLog2e = 0x1.715476p+0f;
  const float y = x * kLog2e;
  if (!(y >= -33.0f)) return 0;
  const float n = floorf(y);
  const float f = fmaf(x, kLog2e, -n);
  float p = fmaf(f, 0x1.e974fcp-10f, 0x1.277854p-7f);
  p = fmaf(f, p, 0x1.c91ce6p-5f);
  p = fmaf(f, p, 0x1.ebdb56p-3f);
  p = fmaf(f, p, 0x1.62e4bap-1f);
  p = fmaf(f, p, 1.0f);
  // The integer part of p · 2^(32 + n), by p's exponent and its 24 bits.
  const unsigned bits = bits_of(p);
  const int shift = static_cast<int>(bits >> 23) - 127 - 23 + 32 + static_cast<int>(n);
  const uint64 digits = (bits & 0x7fffffu) | 0x800000u;
  return shift >= 0 ? digits << shift : shift > -32 ? digits >> -shift : 0;
}

/// ⌊a · b / 2^bits⌋ for b < 2^bits and bits ≤ 32.
STRATA_DEVICE uint64 multiply_shift(uint64 a, uint64 b, int bits) {
  const uint64 low = a & ((uint64{1} << bits) - 1);
  return (a >> bits) * b + (low * b >> bits);
}

/// The first word of philox-4x32-10 for a counter and a key.
STRATA_DEVICE unsigned philox_word(uint64 step, unsigned sequence, const unsigned (&seed)[2]) {
  unsigned c0 = static_cast<unsigned>(step), c1 = static_cast<unsigned>(step >> 32), c2 = sequence, c3 = 0;
  unsigned k0 = seed[0], k1 = seed[1];
#pragma unroll 1
  for (int round = 0; round < 10; ++round) {
    const uint64 a = uint64{0xD2511F53u} * c0;
    const uint64 b = uint64{0xCD9E8D57u} * c2;
    c0 = static_cast<unsigned>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<unsigned>(b);
    c2 = static_cast<unsigned>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<unsigned>(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c0;
}

/// What a logit weighs: e^((l − m) / temperature).
struct Weight {
  float largest;
  float inverse_temperature;
  STRATA_DEVICE uint64 operator()(float logit) const {
    return exponential_weight((logit - largest) * inverse_temperature);
  }
};

/// A number of logits, and the sum of their weights.
struct Mass {
  unsigned count = 0;
  uint64 weight = 0;

  STRATA_DEVICE void add(const Mass& other) {
    count += other.count;
    weight += other.weight;
  }
  /// Whether as much of what is asked for has come.
  template <bool kByWeight>
  STRATA_DEVICE bool reaches(uint64 target) const {
    return (kByWeight ? weight : count) >= target;
  }
  STRATA_DEVICE Mass of_lane(int lane) const { return {shuffle(count, lane), shuffle(weight, lane)}; }
  /// This becomes the sum of all lanes; returns that of the lanes before. All lanes of a warp call it.
  STRATA_DEVICE Mass scan() {
    Mass before;
#pragma unroll 1
    for (int mask = 1; mask < 32; mask *= 2) {
      const Mass other{shuffle_xor(count, mask), shuffle_xor(weight, mask)};
      if ((lane() & mask) != 0) before.add(other);
      add(other);
    }
    return before;
  }
};

/// Whether what is kept depends on the order of logits.
STRATA_DEVICE bool has_limits(const SequenceOptions& options) {
  return options.inverse_temperature != 0 && (options.top_k != 0 || options.share < 1u << 24);
}

/// Which logits are kept: those of a higher rank, and of `rank` the first `equal` by index, each of which weighs
/// `weight`.
struct Kept {
  int rank = -1;
  unsigned equal = 0;
  uint64 weight = 0;

  /// Of so many more of `rank`, after `before` of them.
  STRATA_DEVICE uint64 weight_of(unsigned before, unsigned more) const {
    const unsigned end = before + more < equal ? before + more : equal;
    return before < end ? (end - before) * weight : 0;
  }
};

/// A row's histogram, and the masses of its blocks of ranks, highest first.
template <class T>
struct Histogram {
  const unsigned* counts;  ///< [kRanks], in device memory
  const Mass* blocks;      ///< [kRankBlocks], in scratch memory
  Weight weight;

  STRATA_DEVICE Mass at(int place) const {
    const int rank = kRanks - 1 - place;
    const unsigned count = counts[rank];
    return {count, count == 0 ? 0 : count * weight(logit_of(rank, T{}))};
  }
};

/// By a warp: of 256 masses the first with which the sum of them and of `before` reaches the target. `before` becomes
/// what comes before it. One of them reaches it.
template <bool kByWeight, class At>
STRATA_DEVICE int first_that_reaches(uint64 target, Mass& before, const At& at) {
  constexpr int kOfLane = 256 / 32;
  Mass mine;
#pragma unroll 1
  for (int n = 0; n < kOfLane; ++n) mine.add(at(lane() * kOfLane + n));
  Mass all = mine;
  Mass start = all.scan();
  start.add(before);
  Mass end = start;
  end.add(mine);
  const bool is_here = end.template reaches<kByWeight>(target) && !start.template reaches<kByWeight>(target);
  int place = 0;
  if (is_here) {
    for (place = lane() * kOfLane;; ++place) {
      end = start;
      end.add(at(place));
      if (end.template reaches<kByWeight>(target) || place + 1 == (lane() + 1) * kOfLane) break;
      start = end;
    }
  }
  int from = is_here ? lane() : 0;  // one lane at most
#pragma unroll
  for (int mask = 1; mask < 32; mask *= 2) from |= shuffle_xor(from, mask);
  before = start.of_lane(from);
  return shuffle(place, from);
}

/// The rank with which the target is reached, and in `before` what has a higher one.
template <bool kByWeight, class T>
STRATA_DEVICE int rank_that_reaches(const Histogram<T>& histogram, uint64 target, Mass& before) {
  const int block = first_that_reaches<kByWeight>(target, before, [&](int n) { return histogram.blocks[n]; });
  const int place =
      first_that_reaches<kByWeight>(target, before, [&](int n) { return histogram.at(block * kRankBlock + n); });
  return kRanks - 1 - (block * kRankBlock + place);
}

/// The masses of all blocks, by the team.
template <class Team, class T>
STRATA_DEVICE void sum_blocks(const Histogram<T>& histogram, Mass* blocks) {
  for (int block = Team::warp(); block < kRankBlocks; block += Team::kWarps) {
    Mass mass;
#pragma unroll 1
    for (int n = lane(); n < kRankBlock; n += 32) mass.add(histogram.at(block * kRankBlock + n));
    mass.scan();
    if (lane() == 0) blocks[block] = mass;
  }
}

/// Which logits top-k and top-p keep; by a warp, after sum_blocks.
template <class T>
STRATA_DEVICE Kept kept_of(const Histogram<T>& histogram, const SequenceOptions& options, unsigned logits) {
  uint64 sum = 0;
  if (options.top_k != 0 && options.top_k < logits) {
    Mass before;
    const int rank = rank_that_reaches<false>(histogram, options.top_k, before);
    sum = before.weight + (options.top_k - before.count) * histogram.weight(logit_of(rank, T{}));
  } else {
    Mass all;
#pragma unroll 1
    for (int n = lane(); n < kRankBlocks; n += 32) all.add(histogram.blocks[n]);
    all.scan();
    sum = all.weight;
  }
  uint64 target = options.share >> 24 != 0 ? sum : multiply_shift(sum, options.share, 24);
  if (target == 0) target = 1;
  Mass before;
  Kept kept;
  kept.rank = rank_that_reaches<true>(histogram, target, before);
  kept.weight = histogram.weight(logit_of(kept.rank, T{}));
  // Its weight is not 0, since it reaches the target.
  kept.equal = static_cast<unsigned>((target - before.weight + kept.weight - 1) / kept.weight);
  return kept;
}

/// What a part of a row adds to the draw: the weights of higher ranks than the last one kept, and how many have that.
struct Part {
  uint64 above = 0;
  unsigned equal = 0;

  template <class T>
  STRATA_DEVICE void take(T logit, const Kept& kept, const Weight& weight) {
    const int rank = rank_of(logit);
    if (rank > kept.rank) above += weight(logit_of(rank, T{}));
    if (rank == kept.rank) ++equal;
  }
};

/// A row of logits in words. It has kLogits of them, and what else its words hold counts as −∞, which weighs nothing;
/// 0: it has as many as its words hold.
template <int kLogits, class T, class Side>
struct LogitsRow {
  Words<T, Side> words;

  /// Those of word `number`, which holds `data`.
  STRATA_DEVICE static void read(int number, const unsigned (&data)[2], T (&values)[kOfWord<T>]) {
    memcpy(values, data, sizeof data);
    if constexpr (kLogits != 0) {
#pragma unroll
      for (int e = 0; e < kOfWord<T>; ++e)
        if (number * kOfWord<T> + e >= kLogits) store(values[e], minus_infinity());
    }
  }
};

/// Of `count` words of logits from word `first` on, by a warp together.
template <int kLogits, class T, class Side>
STRATA_DEVICE Part part_of(const LogitsRow<kLogits, T, Side>& row, int first, int count, const Kept& kept,
                           const Weight& weight) {
  const Words<T, Side> logits = row.words + first * kOfWord<T>;
  Part mine;
  gather_words(
      *logits.side, count, lane(), 32, [&](int n) -> auto& { return logits.at(n * kOfWord<T>); },
      [&](int n, const unsigned(&data)[2]) {
        T values[kOfWord<T>];
        row.read(first + n, data, values);
#pragma unroll 1
        for (int e = 0; e < kOfWord<T>; ++e) mine.take(values[e], kept, weight);
      });
  Mass sum{mine.equal, mine.above};
  sum.scan();
  return {sum.weight, sum.count};
}

/// Of 32 words of logits at most, from word `first` on, the token at a place, counted from there: by a warp, a word a
/// lane. `before`: logits of kept.rank before these words.
template <int kLogits, class T, class Side>
STRATA_DEVICE int token_of_words(const LogitsRow<kLogits, T, Side>& row, int first, int words, uint64 place,
                                 unsigned before, const Kept& kept, const Weight& weight) {
  const Words<T, Side> logits = row.words + first * kOfWord<T>;
  T values[kOfWord<T>] = {};
  Part mine;
  gather_words<1>(
      *logits.side, words, lane(), 32, [&](int n) -> auto& { return logits.at(n * kOfWord<T>); },
      [&](int n, const unsigned(&data)[2]) {
        row.read(first + n, data, values);
#pragma unroll
        for (int e = 0; e < kOfWord<T>; ++e) mine.take(values[e], kept, weight);
      });
  Mass equal{mine.equal, 0};
  before += equal.scan().count;
  const uint64 has = mine.above + kept.weight_of(before, mine.equal);
  Mass sum{0, has};
  const uint64 start = sum.scan().weight;
  int token = 0;
  if (start <= place && place < start + has) {
    uint64 end = start;
    token = lane() * kOfWord<T>;
#pragma unroll
    for (int e = 0; e < kOfWord<T>; ++e) {
      Part one;
      one.take(values[e], kept, weight);
      end += one.above + kept.weight_of(before, one.equal);
      before += one.equal;
      if (end <= place) ++token;  // the place is not in these words so far
    }
  }
#pragma unroll
  for (int mask = 1; mask < 32; mask *= 2) token |= shuffle_xor(token, mask);
  return token;
}

/// The first token whose running sum of kept weights, by index, is above ⌊random · their sum / 2^32⌋, of a row of
/// `words` words. By the team, each warp of which has the result. `parts`: two for each warp, of scratch memory.
template <class Team, int kLogits, class T, class Side>
STRATA_DEVICE int token_at(const LogitsRow<kLogits, T, Side>& row, int words, unsigned random, const Kept& kept,
                           const Weight& weight, Part* parts) {
  int first = 0;        // word of the part of the row that has the place
  uint64 place = 0;     // in that part
  unsigned before = 0;  // logits of kept.rank before it
  for (int level = 0; level == 0 || words > 32; ++level) {
    const int each = (words + Team::kWarps - 1) / Team::kWarps;
    const int begin = Team::warp() * each < words ? Team::warp() * each : words;
    const int count = words - begin < each ? words - begin : each;
    const Part mine = part_of(row, first + begin, count, kept, weight);
    Part* const level_parts = parts + level % 2 * Team::kWarps;  // others may still read those of the level before
    if (lane() == 0) level_parts[Team::warp()] = mine;
    Team::meet();
    if (level == 0) {
      Part all;
      for (int n = 0; n < Team::kWarps; ++n) {
        all.above += level_parts[n].above;
        all.equal += level_parts[n].equal;
      }
      place = multiply_shift(all.above + kept.weight_of(0, all.equal), random, 32);
    }
    int chosen = 0;
    for (; chosen + 1 < Team::kWarps; ++chosen) {
      const uint64 has = level_parts[chosen].above + kept.weight_of(before, level_parts[chosen].equal);
      if (place < has) break;
      place -= has;
      before += level_parts[chosen].equal;
    }
    first += chosen * each;
    words = words - chosen * each < each ? words - chosen * each : each;
  }
  return first * kOfWord<T> + token_of_words(row, first, words, place, before, kept, weight);
}

/// Scratch memory of next_token.
template <class Team>
struct DrawScratch {
  Mass blocks[kRankBlocks];
  Part parts[2 * Team::kWarps];
};

/// A sequence's next token: `best` is its largest logit, which is the token where it is not finite. By the team, each
/// warp of which has the result. The row's histogram `counts` is 0 again after it. kLogits: see LogitsRow.
template <class Team, int kLogits = 0, class T, class Side>
STRATA_DEVICE int drawn_token(const Words<T, Side>& logits, int words, const Candidate& best,
                              const SequenceOptions& options, uint64 step, unsigned sequence, unsigned* counts,
                              DrawScratch<Team>& scratch) {
  const Weight weight{best.value, options.inverse_temperature};
  Kept kept;
  if (has_limits(options)) {
    const Histogram<T> histogram{counts, scratch.blocks, weight};
    sum_blocks<Team>(histogram, scratch.blocks);
    Team::meet();
    const unsigned all = kLogits != 0 ? kLogits : static_cast<unsigned>(words) * kOfWord<T>;
    if (best.is_finite()) kept = kept_of(histogram, options, all);
    Team::meet();  // all have read the histogram
    for (int block = Team::warp(); block < kRankBlocks; block += Team::kWarps) {
      if (scratch.blocks[block].count == 0) continue;
      for (int n = lane(); n < kRankBlock; n += 32) counts[kRanks - 1 - (block * kRankBlock + n)] = 0;
    }
  }
  if (!best.is_finite()) return best.index;
  const LogitsRow<kLogits, T, Side> row{logits};
  return token_at<Team>(row, words, philox_word(step, sequence, options.seed), kept, weight, scratch.parts);
}

/// The token of sequence `lane`, where tasks have left them for the one that ends the step.
template <int kSequences, class Side>
STRATA_DEVICE int token_of_lane(const Words<float, Side, 1>& tokens) {
  int token = 0;
  gather_words<1>(
      *tokens.side, kSequences, lane(), 32, [&](int n) -> auto& { return tokens.at(n); },
      [&](int, const unsigned(&data)[2]) { token = static_cast<int>(data[0]); });
  return token;
}

/// The end of a step, by a warp: `token` is that of sequence `lane`. After a stop token its sequence has ended; when
/// all have, so has the launch.
template <int kSequences, class Side>
STRATA_DEVICE void end_of_step(Side& side, int token, int* tokens, SequenceOptions* sequences, const StopTokens& stop) {
  static_assert(kSequences <= 32, "a sequence a lane");
  bool goes_on = false;
  if (lane() < kSequences) {
    tokens[lane()] = token;
    side.put_token(lane(), token);
    bool ended = sequences[lane()].ended != 0;
    for (int n = 0; n < stop.count; ++n) ended = ended || token == stop.tokens[n];
    sequences[lane()].ended = ended ? 1 : 0;
    goes_on = !ended;
  }
  if (!any_lane(goes_on) && lane() == 0) side.finish();
}

}  // namespace strata_device
