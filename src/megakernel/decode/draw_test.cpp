// The next token as tasks find it (tasks/device/strata_sampling.h, strata_draw.h), on the host's stand-in for a block's
// threads, beside models/sampling.h: the same token for random rows of logits.
#include <gtest/gtest.h>

#include <set>

#include "megakernel/decode/test_device_text.h"
#include "megakernel/models/bf16.h"
#include "megakernel/models/sampling.h"
#include "support/random.h"

namespace strata::megakernel {
namespace {

using namespace strata_device;
using Block = BlockTeam<256, 0, 1>;

struct Word {
  unsigned data[2];
};

/// All words have been written.
struct Side {
  using TaggedWord = Word;
  template <int kAtOnce = 4, class Place, class Take>
  void read_at(const Place& place, int count, const Take& take) const {
    for (int n = lane(); n < count; n += 32) take(n, place(n));
  }
  void write(Word& word, unsigned low, unsigned high) const { word = {{low, high}}; }
  void refuse(int row, int element) { refused.emplace_back(row, element); }

  std::vector<std::pair<int, int>> refused;  ///< rows and elements
};

struct Row {
  std::vector<float> logits;  // bf16
  std::vector<Word> words;

  /// `beside` lies behind the logits in words that hold more.
  explicit Row(std::vector<float> values, const std::vector<float>& beside = {}) : logits(std::move(values)) {
    for (float& logit : logits) logit = bf16_to_float(float_to_bf16(logit));
    std::vector<float> all = logits;
    all.insert(all.end(), beside.begin(), beside.end());
    for (size_t n = 0; n < all.size(); n += 4) {
      const auto pair = [&](size_t at) {
        return static_cast<unsigned>(float_to_bf16(all[at])) | static_cast<unsigned>(float_to_bf16(all[at + 1])) << 16;
      };
      words.push_back({{pair(n), pair(n + 2)}});
    }
  }
};

/// What tasks must refuse: of each part of a row the first element that is not finite.
std::vector<std::pair<int, int>> not_finite(const Row& row, unsigned sequence, size_t parts) {
  std::vector<std::pair<int, int>> found;
  const size_t each = (row.words.size() + parts - 1) / parts * 4;
  for (size_t begin = 0; begin < row.logits.size(); begin += each) {
    const auto first = row.logits.begin() + static_cast<int64_t>(begin);
    const auto end = row.logits.begin() + static_cast<int64_t>(std::min(begin + each, row.logits.size()));
    const auto at = std::find_if(first, end, [](float logit) { return !std::isfinite(logit); });
    if (at != end) found.emplace_back(sequence, at - row.logits.begin());
  }
  return found;
}

/// The tasks of a step's end for one sequence, one after the other in one block. kLogits: strata_draw.h, LogitsRow.
template <int kLogits = 0>
int token_of_tasks(Row& row, const SequenceOptions& options, uint64_t step, unsigned sequence,
                   std::vector<unsigned>& counts) {
  constexpr int kParts = 5;
  Side side;
  const auto words = static_cast<int>(row.words.size());
  std::vector<Word> best(kParts);
  DrawScratch<Block> scratch;
  std::array<int, Block::kThreads> tokens{};
  const auto body = [&] {
    const Words<bf16, Side> logits{row.words.data(), &side, 0};
    const int each = (words + kParts - 1) / kParts;
    for (int part = 0; part < kParts; ++part) {
      const int end = std::min((part + 1) * each, words);
      best_of_part<Block, kLogits>(logits, static_cast<int>(sequence), std::min(part * each, end), end,
                                   WordsOut<float, Side>{best.data(), &side, 0}, 2 * part,
                                   reinterpret_cast<unsigned char*>(&scratch), [&](bf16 logit) {
                                     if (has_limits(options))
                                       add_relaxed(counts[static_cast<size_t>(rank_of(logit))], 1);
                                   });
      Block::meet();
    }
    const Candidate largest = best_of<kParts>(Words<float, Side>{best.data(), &side, 0}, 0);
    int token = largest.index;
    if (options.inverse_temperature != 0)
      token = drawn_token<Block, kLogits>(logits, words, largest, options, step, sequence, counts.data(), scratch);
    tokens[static_cast<size_t>(Block::rank())] = token;
  };
  strata_host::team.run(1, 1, Block::kThreads, body);
  EXPECT_EQ(side.refused, not_finite(row, sequence, kParts));
  for (const int token : tokens) EXPECT_EQ(token, tokens[0]) << "threads have different tokens";
  return tokens[0];
}

SequenceOptions options_of(const SamplingOptions& options) {
  SequenceOptions made;
  made.inverse_temperature = inverse_temperature(options);
  made.top_k = static_cast<unsigned>(options.top_k);
  made.share = static_cast<unsigned>(options.top_p * 0x1p24F);
  made.seed[0] = static_cast<unsigned>(options.seed);
  made.seed[1] = static_cast<unsigned>(options.seed >> 32);
  return made;
}

std::vector<float> random_logits(Random& random, size_t size) {
  std::vector<float> logits(size);
  const int kind = static_cast<int>(random.below(5));
  const double scale = random.uniform(0.01, 20);
  for (float& logit : logits) {
    const double spread = random.uniform(-1, 1) + random.uniform(-1, 1) + random.uniform(-1, 1);
    logit = static_cast<float>(kind == 0 ? scale : kind == 1 ? std::floor(spread * 2) * scale : spread * scale);
    if (kind == 3 && random.below(4) == 0) logit = random.below(2) == 0 ? NAN : -INFINITY;
    if (kind == 4 && random.below(3) == 0) logit = random.below(2) == 0 ? 0.0F : -0.0F;
  }
  if (random.below(10) == 0) logits[random.below(size)] = INFINITY;
  return logits;
}

TEST(Draws, AreThoseOfTheHost) {
  Random random(18);
  std::vector<unsigned> counts(kRanks);
  std::set<int64_t> different;
  for (int round = 0; round < 150; ++round) {
    const size_t size = 4 * (random.below(4) == 0 ? 1 + random.below(40) : 100 + random.below(3000));
    Row row(random_logits(random, size));
    SamplingOptions options;
    options.temperature = random.below(10) == 0 ? 0.0F : static_cast<float>(random.uniform(0.05, 4));
    if (random.below(2) == 0)
      options.top_k = 1 + static_cast<int64_t>(random.below(random.below(2) == 0 ? 8 : 2 * size));
    if (random.below(2) == 0) options.top_p = static_cast<float>(random.uniform(1e-4, 1));
    options.seed = random();
    ASSERT_TRUE(check_sampling(options));
    const uint64_t step = random.below(100'000);
    const auto sequence = static_cast<unsigned>(random.below(16));
    const int64_t expected = sample(row.logits, options, step, sequence);
    ASSERT_EQ(token_of_tasks(row, options_of(options), step, sequence, counts), expected)
        << "round " << round << ": " << size << " logits, temperature " << options.temperature << ", top_k "
        << options.top_k << ", top_p " << options.top_p;
    different.insert(expected);
    for (const unsigned count : counts) ASSERT_EQ(count, 0U) << "the histogram is not 0 again";
  }
  EXPECT_GT(different.size(), 75U);  // not always the largest or the first
}

/// What lies behind the logits of a row would be the largest, or is not finite; nothing comes of it.
template <int kLogits>
void draw_beside_others(Random& random, size_t beside) {
  std::vector<unsigned> counts(kRanks);
  for (int round = 0; round < 40; ++round) {
    std::vector<float> others(beside);
    for (float& other : others) {
      constexpr std::array kValues{NAN, INFINITY, -INFINITY, 0.0F, 1e30F};
      other = kValues[random.below(kValues.size())];
    }
    Row row(random_logits(random, kLogits), others);
    SamplingOptions options;
    options.temperature = round % 4 == 0 ? 0.0F : static_cast<float>(random.uniform(0.05, 4));
    if (random.below(2) == 0) options.top_k = 1 + static_cast<int64_t>(random.below(kLogits + 2));
    if (random.below(2) == 0) options.top_p = static_cast<float>(random.uniform(1e-4, 1));
    options.seed = random();
    const uint64_t step = random.below(100'000);
    ASSERT_EQ(token_of_tasks<kLogits>(row, options_of(options), step, 2, counts), sample(row.logits, options, step, 2U))
        << "round " << round << ": " << kLogits << " logits, temperature " << options.temperature << ", top_k "
        << options.top_k << ", top_p " << options.top_p;
    for (const unsigned count : counts) ASSERT_EQ(count, 0U) << "the histogram is not 0 again";
  }
}
TEST(Draws, TakeNothingThatIsNoLogit) {
  Random random(21);
  draw_beside_others<1>(random, 63);
  draw_beside_others<7>(random, 57);
  draw_beside_others<1003>(random, 21);
  draw_beside_others<2305>(random, 3);
}

TEST(Draws, HaveNoLargestLogitAmongNothingButNaN) {
  std::vector<unsigned> counts(kRanks);
  Row row(std::vector<float>(64, NAN));
  EXPECT_EQ(token_of_tasks(row, options_of({.temperature = 1, .top_k = 3}), 0, 0, counts), 0);
  EXPECT_EQ(counts, std::vector<unsigned>(kRanks)) << "the histogram is not 0 again";
}

TEST(Draws, RefuseWhatIsNotFinite) {
  std::vector<unsigned> counts(kRanks);
  for (const float wrong : {NAN, -NAN, INFINITY, -INFINITY}) {
    for (const size_t place : {size_t{0}, size_t{517}, size_t{1023}}) {
      std::vector<float> logits(1024, 1.5F);
      logits[place] = wrong;
      Row row(std::move(logits));
      ASSERT_EQ(not_finite(row, 3, 5), (std::vector<std::pair<int, int>>{{3, static_cast<int>(place)}}));
      token_of_tasks(row, {}, 0, 3, counts);  // which compares
    }
  }
}

TEST(Draws, SumBlocksOfRanks) {
  Random random(20);
  for (int round = 0; round < 10; ++round) {
    std::vector<unsigned> counts(kRanks);
    for (int n = 0; n < 3000; ++n)
      ++counts[random.below(2) == 0 ? random.below(kRanks) : static_cast<size_t>(rank_of(bf16{0x3f80}))];
    const Weight weight{static_cast<float>(random.uniform(0, 3)), static_cast<float>(random.uniform(0.1, 2))};
    std::vector<Mass> blocks(kRankBlocks);
    const Histogram<bf16> histogram{counts.data(), blocks.data(), weight};
    strata_host::team.run(1, 1, Block::kThreads, [&] { sum_blocks<Block>(histogram, blocks.data()); });
    for (int block = 0; block < kRankBlocks; ++block) {
      uint64_t logits = 0, sum = 0;
      for (int place = block * kRankBlock; place < (block + 1) * kRankBlock; ++place) {  // the highest rank first
        const int rank = kRanks - 1 - place;
        const uint64_t count = counts[static_cast<size_t>(rank)];
        logits += count;
        if (count > 0) sum += count * weight(logit_of(rank, bf16{}));
      }
      ASSERT_EQ(blocks[static_cast<size_t>(block)].count, logits) << "block " << block;
      ASSERT_EQ(blocks[static_cast<size_t>(block)].weight, sum) << "block " << block;
    }
  }
}

TEST(Draws, WeighAsTheHostDoes) {
  Random random(19);
  for (int n = 0; n < 200'000; ++n) {
    const auto x = static_cast<float>(-random.uniform(0, n % 3 == 0 ? 1e-3 : 30));
    ASSERT_EQ(strata_device::exponential_weight(x), megakernel::exponential_weight(x)) << x;
  }
}

TEST(Ranks, OrderLogits) {
  for (unsigned bits = 0; bits < 1U << 16; ++bits) {
    const float logit = to_compute(bf16{static_cast<uint16_t>(bits)});
    const int rank = rank_of(bf16{static_cast<uint16_t>(bits)});
    ASSERT_GE(rank, 0);
    ASSERT_LT(rank, kRanks);
    ASSERT_EQ(logit_of(rank, bf16{}), std::isnan(logit) ? -INFINITY : logit);
    const float other = to_compute(bf16{static_cast<uint16_t>(bits * 40'503U)});
    if (std::isnan(logit) || std::isnan(other)) continue;
    ASSERT_EQ(rank < rank_of(bf16{static_cast<uint16_t>(bits * 40'503U)}), logit < other) << logit << ' ' << other;
  }
}

}  // namespace
}  // namespace strata::megakernel
