// The ends of a decode step, written by hand since they depend on tokens: the embedding of the last token, and the next
// one, the largest logit, in two stages: of each task's part of the vocabulary, and of these. Stands behind
// strata_task.h.

namespace strata_device {

/// Row `token` of the table [words, kHidden].
template <class Team, int kHidden, class T, class Side>
STRATA_DEVICE void embed(const T* table, int token, const WordsOut<T, Side>& out) {
  const T* const row = table + static_cast<int64>(token) * kHidden;
  for (int at = static_cast<int>(Team::rank()) * kOfWord<T>; at < kHidden; at += Team::kThreads * kOfWord<T>) {
    unsigned word[2];
    memcpy(word, row + at, sizeof word);
    out.put(at, word[0], word[1]);
  }
}

/// A logit and its place. Of equal logits the first counts; NaN counts as −∞ (sampling.h, argmax).
struct Candidate {
  float value = minus_infinity();
  int index = 0x7fffffff;

  STRATA_DEVICE void take(float x, int at) {
    if (x > value || (x == value && at < index)) {
      value = x;
      index = at;
    }
  }
  STRATA_DEVICE bool is_finite() const { return value > minus_infinity() && value < -minus_infinity(); }
  STRATA_DEVICE void take_of_warp() {
#pragma unroll
    for (int mask = 1; mask < 32; mask *= 2) take(shuffle_xor(value, mask), shuffle_xor(index, mask));
  }
};

template <class T>
STRATA_DEVICE bool is_finite(T x) {
  constexpr unsigned kExponent = 0x7f800000u;
  return (bits_of(to_compute(x)) & kExponent) != kExponent;
}

/// What a warp has found in a part of a row.
struct FoundInPart {
  Candidate best;
  int not_finite = 0x7fffffff;  ///< the first place of NaN or an infinity

  STRATA_DEVICE void take_of_warp() {
    best.take_of_warp();
#pragma unroll
    for (int mask = 1; mask < 32; mask *= 2) {
      const int other = shuffle_xor(not_finite, mask);
      not_finite = other < not_finite ? other : not_finite;
    }
  }
};

/// The best of the words from `first` to `end` of row `row` of logits, as one word: the logit and its place. `visit`
/// sees each logit. NaN and infinities end the kernel: no token follows from them. `scratch` holds a FoundInPart for
/// each warp. A row has kLogits of them, and what else its words hold is none; 0: it has as many as its words hold.
template <class Team, int kLogits = 0, class T, class Side, class Visit>
STRATA_DEVICE void best_of_part(const Words<T, Side>& logits, int row, int first, int end,
                                const WordsOut<float, Side>& out, int at, unsigned char* scratch, const Visit& visit) {
  FoundInPart found;
  gather_words(
      *logits.side, end - first, static_cast<int>(Team::rank()),
      Team::kThreads, [&](int n) -> auto& { return logits.at((first + n) * kOfWord<T>); },
      [&](int n, const unsigned(&data)[2]) {
        T values[kOfWord<T>];
        memcpy(values, data, sizeof data);
#pragma unroll
        for (int e = 0; e < kOfWord<T>; ++e) {
          const int place = (first + n) * kOfWord<T> + e;
          if (kLogits != 0 && place >= kLogits) continue;
          found.best.take(to_compute(values[e]), place);
          if (!is_finite(values[e]) && place < found.not_finite) found.not_finite = place;
          visit(values[e]);
        }
      });
  found.take_of_warp();
  auto* const of_warps = reinterpret_cast<FoundInPart*>(scratch);
  if (lane() == 0) of_warps[Team::warp()] = found;
  Team::meet();
  if (Team::warp() != 0) return;
  found = FoundInPart{};
  if (lane() < Team::kWarps) found = of_warps[lane()];
  found.take_of_warp();
  if (lane() != 0) return;
  if (found.not_finite != FoundInPart{}.not_finite) logits.side->refuse(row, found.not_finite);
  out.put(at, bits_of(found.best.value), static_cast<unsigned>(found.best.index));
}

/// The best of kParts candidates that best_of_part left from `first` on: by one warp, all lanes have it. Where all
/// logits are NaN or −∞, its index is 0.
template <int kParts, class Side>
STRATA_DEVICE Candidate best_of(const Words<float, Side>& candidates, int first) {
  Candidate best;
  gather_words(
      *candidates.side, kParts, lane(), 32, [&](int n) -> auto& { return candidates.at((first + n) * 2); },
      [&](int, const unsigned(&data)[2]) { best.take(float_of(data[0]), static_cast<int>(data[1])); });
  best.take_of_warp();
  if (best.index == Candidate{}.index) best.index = 0;
  return best;
}

}  // namespace strata_device
