#include "megakernel/models/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "support/random.h"

namespace strata::megakernel {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

int64_t argmax_of(const std::vector<float>& logits) { return argmax(std::span<const float>(logits)); }

/// sample by its specification, with wide integers and one list in the order of the logits.
int64_t oracle(std::vector<float> logits, const SamplingOptions& options, uint64_t step, uint32_t sequence) {
  for (float& logit : logits)
    if (std::isnan(logit)) logit = -kInfinity;
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  const float most = logits[order[0]];
  if (options.temperature == 0 || !std::isfinite(most)) return static_cast<int64_t>(order[0]);
  const float r = 1.0F / options.temperature;
  std::vector<uint64_t> weights(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    const float below = logits[i] - most;
    weights[i] = exponential_weight(below * r);
  }
  using Wide = unsigned __int128;
  std::vector<bool> kept(logits.size(), false);
  const size_t k =
      options.top_k == 0 ? order.size() : std::min<size_t>(order.size(), static_cast<size_t>(options.top_k));
  Wide sum = 0;
  for (size_t n = 0; n < k; ++n) sum += weights[order[n]];
  const Wide t = std::max<Wide>(1, (sum * static_cast<uint64_t>(static_cast<double>(options.top_p) * 16777216)) >> 24);
  Wide before = 0;
  for (size_t n = 0; n < k; ++n) {
    kept[order[n]] = before < t;
    before += weights[order[n]];
  }
  Wide left = 0;
  for (size_t i = 0; i < logits.size(); ++i) left += kept[i] ? weights[i] : 0;
  const uint32_t word = philox({static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32), sequence, 0},
                               {static_cast<uint32_t>(options.seed), static_cast<uint32_t>(options.seed >> 32)})[0];
  const Wide place = (left * word) >> 32;
  Wide running = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    running += kept[i] ? weights[i] : 0;
    if (running > place) return static_cast<int64_t>(i);
  }
  return -1;
}

TEST(Argmax, IsTheLowestOfTheLargest) {
  EXPECT_EQ(argmax_of({1}), 0);
  EXPECT_EQ(argmax_of({1, 3, 3, 2}), 1);
  EXPECT_EQ(argmax_of({0.0F, -0.0F}), 0);
  EXPECT_EQ(argmax_of({-0.0F, 0.0F}), 0);
  EXPECT_EQ(argmax_of({-kInfinity, -kInfinity}), 0);
  EXPECT_EQ(argmax_of({kNaN, kNaN}), 0);
  EXPECT_EQ(argmax_of({kNaN, -kInfinity, -5}), 2);
  EXPECT_EQ(argmax_of({-kInfinity, kNaN, -5, kNaN}), 2);
  EXPECT_EQ(argmax_of({2, kNaN, kInfinity}), 2);
  const std::vector<double> wide{1, 1 + 1e-12};
  EXPECT_EQ(argmax(std::span<const double>(wide)), 1);
}

/// The known answers that come with the authors' Random123 library.
TEST(Philox, HasTheKnownAnswers) {
  EXPECT_THAT(philox({0, 0, 0, 0}, {0, 0}), testing::ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_THAT(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              testing::ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              testing::ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(ExponentialWeight, IsTheExponential) {
  EXPECT_EQ(exponential_weight(0), uint64_t{1} << 32);
  EXPECT_EQ(exponential_weight(-0.0F), uint64_t{1} << 32);
  EXPECT_EQ(exponential_weight(-kInfinity), 0u);
  EXPECT_EQ(exponential_weight(-100), 0u);
  Random random(1);
  for (int test = 0; test < 200000; ++test) {
    const auto x = static_cast<float>(-std::exp(random.uniform(-20, 3.2)));
    const double exact = 0x1p32 * std::exp(static_cast<double>(x));
    EXPECT_NEAR(static_cast<double>(exponential_weight(x)), exact, 1 + 4e-7 * exact) << x;
  }
}

TEST(Sampling, FollowsItsSpecification) {
  Random random(2);
  int not_best = 0;
  for (int test = 0; test < 20000; ++test) {
    std::vector<float> logits(1 + random.below(40));
    const double spread = random.uniform(0, 12);
    for (float& logit : logits) {
      logit = static_cast<float>(random.uniform(-spread, spread));
      if (random.below(4) == 0) logit = std::round(logit);  // ties
      if (random.below(50) == 0) logit = random.below(2) == 0 ? -kInfinity : kNaN;
    }
    SamplingOptions options;
    options.temperature = random.below(5) == 0 ? 0.0F : static_cast<float>(random.uniform(0.1, 3));
    if (random.below(2) == 0) options.top_k = static_cast<int64_t>(random.below(logits.size() + 3));
    if (random.below(2) == 0) options.top_p = static_cast<float>(random.uniform(1e-9, 1));
    options.seed = random();
    ASSERT_TRUE(check_sampling(options));
    const uint64_t step = random();
    const auto sequence = static_cast<uint32_t>(random());
    const int64_t token = sample(logits, options, step, sequence);
    ASSERT_EQ(token, oracle(logits, options, step, sequence)) << test;
    not_best += token != argmax_of(logits);
  }
  EXPECT_GT(not_best, 1000);
}

TEST(Sampling, OfAVocabularyFollowsItsSpecification) {
  Random random(3);
  std::vector<float> logits(151936);
  for (int test = 0; test < 8; ++test) {
    for (float& logit : logits) logit = static_cast<float>(random.uniform(-1, 1));
    SamplingOptions options{1.0F, test % 2 == 0 ? 0 : 5000, test < 4 ? 1.0F : 0.9F, random()};
    EXPECT_EQ(sample(logits, options, 5, 1), oracle(logits, options, 5, 1));
  }
}

TEST(Sampling, DrawsByTheProbabilitiesOfTheSoftmax) {
  const std::vector<float> logits{0, 1, -2, 1, 0.5F, -kInfinity, 3};
  for (const float temperature : {0.7F, 1.0F, 2.0F}) {
    const SamplingOptions options{temperature, 0, 1, 11};
    std::vector<double> expected;
    for (const float logit : logits) expected.push_back(std::exp(static_cast<double>(logit / temperature)));
    const double total = std::accumulate(expected.begin(), expected.end(), 0.0);
    constexpr int kDraws = 100000;
    std::vector<int> counts(logits.size());
    for (int draw = 0; draw < kDraws; ++draw)
      ++counts[static_cast<size_t>(sample(logits, options, static_cast<uint64_t>(draw), 0))];
    double chi = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      const double mean = kDraws * expected[i] / total;
      if (mean == 0) {
        EXPECT_EQ(counts[i], 0);
      } else {
        chi += (counts[i] - mean) * (counts[i] - mean) / mean;
      }
    }
    EXPECT_LT(chi, 25);  // 5 degrees of freedom: above with probability 1.4e-4; the seed is fixed
  }
}

TEST(Sampling, KeepsWhatTopKAndTopPSay) {
  // Probabilities 1/2, 1/4, 1/8, 1/16, 1/16 in another order.
  const float step = std::log(2.0F);
  const std::vector<float> logits{-3 * step, 0, -4 * step, -1 * step, -2 * step, -4 * step};
  const auto support = [&](int64_t k, float p) {
    std::map<int64_t, int> seen;
    for (uint64_t draw = 0; draw < 3000; ++draw) ++seen[sample(logits, {1, k, p, 5}, draw, 0)];
    std::vector<int64_t> tokens;
    for (const auto& [token, count] : seen) tokens.push_back(token);
    return tokens;
  };
  EXPECT_THAT(support(0, 1), testing::ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(support(1, 1), testing::ElementsAre(1));
  EXPECT_THAT(support(3, 1), testing::ElementsAre(1, 3, 4));
  EXPECT_THAT(support(5, 1), testing::ElementsAre(0, 1, 2, 3, 4));  // of the equal two the lower index
  EXPECT_THAT(support(0, 0.4F), testing::ElementsAre(1));
  EXPECT_THAT(support(0, 0.7F), testing::ElementsAre(1, 3));
  EXPECT_THAT(support(0, 0.8F), testing::ElementsAre(1, 3, 4));
  EXPECT_THAT(support(0, 1e-12F), testing::ElementsAre(1));
  EXPECT_THAT(support(2, 0.7F), testing::ElementsAre(1, 3));  // 2/3 and 1/3 of what is left
  EXPECT_THAT(support(2, 0.6F), testing::ElementsAre(1));
}

TEST(Sampling, DependsOnSeedStepAndSequenceAlone) {
  const std::vector<float> logits(1000, 0.0F);
  const SamplingOptions options{1, 0, 1, 5};
  const int64_t token = sample(logits, options, 7, 2);
  EXPECT_EQ(sample(logits, options, 7, 2), token);
  EXPECT_NE(sample(logits, options, 8, 2), token);
  EXPECT_NE(sample(logits, options, 7, 3), token);
  EXPECT_NE(sample(logits, {1, 0, 1, 6}, 7, 2), token);
  EXPECT_NE(sample(logits, {1, 0, 1, 5 + (uint64_t{1} << 32)}, 7, 2), token);
  EXPECT_NE(sample(logits, options, 7 + (uint64_t{1} << 32), 2), token);
}

/// Where nothing but the largest logits has weight, the token is one of these, whatever the float's range does to
/// 1 / temperature; and a top_p of 0 leaves one.
TEST(Sampling, LeastTemperaturesAndSharesTakeTheLargest) {
  const std::vector<float> logits{-INFINITY, 3, -3.0e38F, 3, 2.984375F, 0};
  std::set<int64_t> drawn;
  for (const float temperature : {1e-4F, 1e-9F, 1e-37F, 1e-40F, std::numeric_limits<float>::denorm_min()}) {
    for (uint64_t step = 0; step < 20; ++step) drawn.insert(sample(logits, {temperature, 0, 1, 3}, step, 0));
  }
  EXPECT_THAT(drawn, testing::ElementsAre(1, 3));
  for (uint64_t step = 0; step < 20; ++step) EXPECT_EQ(sample(logits, {1, 0, 0, 3}, step, 0), 1);
}

TEST(Sampling, NamesOptionsThatMakeNoSense) {
  const auto error = [](const SamplingOptions& options) {
    const auto checked = check_sampling(options);
    return checked ? "none" : checked.error().message;
  };
  EXPECT_EQ(error({}), "none");
  EXPECT_EQ(error({0.6F, 20, 0.95F, 1}), "none");
  EXPECT_EQ(error({1e-9F, 0, 0.0F, 1}), "none");
  for (const float wrong : {-1.0F, -1e-40F, 1e10F, kNaN, kInfinity})
    EXPECT_THAT(error({wrong, 0, 1, 0}), testing::HasSubstr("temperature"));
  EXPECT_THAT(error({1, -1, 1, 0}), testing::HasSubstr("top_k is -1"));
  for (const float wrong : {-0.1F, 1.1F, kNaN}) EXPECT_THAT(error({1, 0, wrong, 0}), testing::HasSubstr("top_p"));
}

}  // namespace
}  // namespace strata::megakernel
