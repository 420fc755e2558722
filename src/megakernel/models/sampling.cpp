#include "megakernel/models/sampling.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace strata::megakernel {
namespace {

/// ⌊a · b / 2^bits⌋ for b < 2^bits and bits ≤ 32; the result fits.
uint64_t multiply_shift(uint64_t a, uint64_t b, int bits) {
  const uint64_t low = a & ((uint64_t{1} << bits) - 1);
  return (a >> bits) * b + (low * b >> bits);
}

constexpr int kShareBits = 24;  // of P

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

Result<void> check_sampling(const SamplingOptions& options) {
  constexpr float kMost = 0x1p20F;
  const float t = options.temperature;
  if (!(t >= 0 && t <= kMost))
    return with_remedy(invalid("a temperature of {}", t),
                       fmt::format("write 0 for the likeliest token, or a number up to {}", kMost));
  if (options.top_k < 0)
    return with_remedy(invalid("top_k is {}", options.top_k), "write a number of tokens, or 0 for all");
  if (!(options.top_p >= 0 && options.top_p <= 1))
    return with_remedy(invalid("top_p is {}", options.top_p), "write a probability, from 0 to 1");
  return {};
}

tl::unexpected<Error> not_finite_logits(int64_t positions, int64_t sequence) {
  return with_remedy(
      unsupported("step {} of sequence {} has NaN or infinities among its logits", positions + 1, sequence),
      "look for NaN, infinities and very large numbers in the weights");
}

float inverse_temperature(const SamplingOptions& options) {
  if (options.temperature == 0) return 0;
  return std::min(1.0F / options.temperature, std::numeric_limits<float>::max());
}

uint64_t exponential_weight(float x) {
  constexpr float kLog2e = 0x1.715476p+0F;
  const float y = x * kLog2e;
  if (!(y >= -33.0F)) return 0;
  const float n = std::floor(y);
  const float f = std::fma(x, kLog2e, -n);
  float p = std::fma(f, 0x1.e974fcp-10F, 0x1.277854p-7F);
  for (const float c : {0x1.c91ce6p-5F, 0x1.ebdb56p-3F, 0x1.62e4bap-1F, 1.0F}) p = std::fma(f, p, c);
  return static_cast<uint64_t>(std::ldexp(p, kWeightBits + static_cast<int>(n)));
}

int64_t sample(std::span<const float> logits, const SamplingOptions& options, uint64_t step, uint32_t sequence) {
  const int64_t best = argmax(logits);
  const float most = logits[static_cast<size_t>(best)];
  if (options.temperature == 0 || !std::isfinite(most)) return best;

  struct Candidate {
    float logit;
    int64_t token;
    uint64_t weight;
    bool operator<(const Candidate& other) const {
      return logit != other.logit ? logit > other.logit : token < other.token;
    }
  };
  const float inverse = inverse_temperature(options);
  std::vector<Candidate> kept;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float logit = std::isnan(logits[i]) ? -INFINITY : logits[i];
    kept.push_back({logit, static_cast<int64_t>(i), exponential_weight((logit - most) * inverse)});
  }
  std::sort(kept.begin(), kept.end());
  if (options.top_k > 0 && options.top_k < static_cast<int64_t>(kept.size())) {
    kept.resize(static_cast<size_t>(options.top_k));
  }
  uint64_t sum = 0;
  for (const Candidate& candidate : kept) sum += candidate.weight;
  const auto share = static_cast<uint64_t>(options.top_p * 0x1p24F);
  const uint64_t target =
      std::max<uint64_t>(1, share >> kShareBits != 0 ? sum : multiply_shift(sum, share, kShareBits));
  uint64_t left = 0;
  size_t count = 0;
  for (; count < kept.size() && left < target; ++count) left += kept[count].weight;
  kept.resize(count);

  std::sort(kept.begin(), kept.end(), [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
  const auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
  const auto high = [](uint64_t word) { return static_cast<uint32_t>(word >> 32); };
  const uint32_t word = philox({low(step), high(step), sequence, 0}, {low(options.seed), high(options.seed)})[0];
  const uint64_t place = multiply_shift(left, word, 32);
  uint64_t running = 0;
  for (const Candidate& candidate : kept) {
    running += candidate.weight;
    if (running > place) return candidate.token;
  }
  return best;  // not reached: the sum is above any place
}

}  // namespace strata::megakernel
