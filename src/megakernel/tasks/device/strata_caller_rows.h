// Kernels' parts that exchange keys, values and logits with a caller who has them as frameworks do (strata_caller.h).
// Rows are copied as they are: what a step left in the cache, or what another program computed.

namespace strata_device {

constexpr int kCallerRows = 16;  ///< positions of a block: the host's grids have this number, too

/// By a block: rows [chunk, chunk + 1) · kCallerRows of those to be copied, of one head and layer. Tiles lie as
/// HistoryPart and attention's task say: those of a split together.
template <class Team, class Keys, class Values, int kValuesAt, int kKeys, int kSplits, int kIterations, int kStageBytes,
          int kHeadDim>
STRATA_DEVICE void exchange_rows(const CallerRows& rows, const CallerLayer& layer, int chunk, int head) {
  constexpr int kWords = kHeadDim / kOfLane;  // of a row
  for (int n = static_cast<int>(Team::rank()); n < kCallerRows * 2 * kWords; n += Team::kThreads) {
    const int64 of_rows = static_cast<int64>(chunk) * kCallerRows + n / (2 * kWords);
    if (of_rows >= rows.count) return;
    const int64 position = rows.first + of_rows;
    const int tile = static_cast<int>(position / kKeys);
    const int row = static_cast<int>(position % kKeys);
    const bool is_value = n / kWords % 2 != 0;
    const int word = n % kWords;
    unsigned char* const stage =
        layer.tiles +
        (static_cast<int64>(tile % kSplits + kSplits * head) * kIterations + tile / kSplits) * kStageBytes;
    unsigned* const own =
        is_value ? word_of_tile<Values>(stage + kValuesAt, row, word) : word_of_tile<Keys>(stage, row, word);
    auto* const callers = reinterpret_cast<unsigned*>((is_value ? layer.values : layer.keys) +
                                                      (head * rows.positions + position) * kHeadDim + word * kOfLane);
    const unsigned* const from = rows.into_tiles != 0 ? callers : own;
    unsigned* const to = rows.into_tiles != 0 ? own : callers;
    const unsigned low = from[0], high = from[1];
    to[0] = low;
    to[1] = high;
  }
}

/// By a block: four logits for each of its threads, of one sequence. They lie in tagged words, `row_words` a sequence.
template <class Team>
STRATA_DEVICE void give_logits(const CallerRows& rows, const unsigned char* words, int row_words, int chunk,
                               int sequence) {
  constexpr int kWordBytes = 16;
  const int word = chunk * Team::kThreads + static_cast<int>(Team::rank());
  const auto* const from =
      reinterpret_cast<const unsigned short*>(words + (static_cast<int64>(sequence) * row_words + word) * kWordBytes);
  for (int n = 0; n < 4; ++n) {
    const int at = word * 4 + n;
    if (at < rows.vocabulary) rows.logits[static_cast<int64>(sequence) * rows.vocabulary + at] = from[n];
  }
}

}  // namespace strata_device
