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

/// The best of the words from `first` to `end` of a row of logits, as one word: the logit and its place. `visit` sees
/// each logit. `scratch` holds two words for each warp.
template <class Team, class T, class Side, class Visit>
STRATA_DEVICE void best_of_part(const Words<T, Side>& logits, int first, int end, const WordsOut<float, Side>& out,
                                int at, unsigned char* scratch, const Visit& visit) {
  Candidate best;
  gather_words(
      *logits.side, end - first, static_cast<int>(Team::rank()),
      Team::kThreads, [&](int n) -> auto& { return logits.at((first + n) * kOfWord<T>); },
      [&](int n, const unsigned(&data)[2]) {
        T values[kOfWord<T>];
        memcpy(values, data, sizeof data);
#pragma unroll
        for (int e = 0; e < kOfWord<T>; ++e) {
          best.take(to_compute(values[e]), (first + n) * kOfWord<T> + e);
          visit(values[e]);
        }
      });
  best.take_of_warp();
  auto* const of_warps = reinterpret_cast<Candidate*>(scratch);
  if (lane() == 0) of_warps[Team::warp()] = best;
  Team::meet();
  if (Team::warp() != 0) return;
  best = Candidate{};
  if (lane() < Team::kWarps) best = of_warps[lane()];
  best.take_of_warp();
  if (lane() == 0) out.put(at, bits_of(best.value), static_cast<unsigned>(best.index));
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
