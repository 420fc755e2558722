#include "megakernel/decode/decode_sizes.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "megakernel/models/product_cut.h"
#include "megakernel/models/test_models.h"
#include "support/random.h"

namespace strata::megakernel {
namespace {

ModelConfig sized(int64_t vocabulary, int64_t intermediate) {
  ModelConfig config = tiny_config(ModelFamily::Llama);
  config.vocab_size = vocabulary;
  config.intermediate_size = intermediate;
  return config;
}

constexpr int64_t kWorkers = 128;

TEST(TaskSizes, AreTheModelsOwnWhereTasksTakeThemAndShareThemEqually) {
  for (const std::string& name : preset_names()) {
    const ModelConfig config = *preset_config(name), filled = task_sizes(config, kWorkers);
    EXPECT_EQ(filled.intermediate_size, config.intermediate_size) << name;
    EXPECT_LE(filled.vocab_size, config.vocab_size + 256) << name;
    EXPECT_EQ(task_sizes(filled, kWorkers), filled) << name;
  }
  for (const ModelConfig& config : {sized(4, 32), sized(32768, 1536)}) EXPECT_EQ(task_sizes(config, kWorkers), config);
}

TEST(TaskSizes, AreFilledUpToWhatTasksDivide) {
  for (const auto& [own, filled] :
       {std::pair{sized(509, 100), sized(512, 128)}, {sized(1, 1), sized(64, 64)}, {sized(63, 1000), sized(64, 1024)}})
    EXPECT_EQ(task_sizes(own, kWorkers), filled);
}

/// Sizes without good divisors, in models whose weights do not fit the rings.
TEST(TaskSizes, AreFilledUpWhereThatIsFaster) {
  ModelConfig config = sized(32000, 11008);
  config.hidden_size = 4096;
  EXPECT_EQ(task_sizes(config, kWorkers).intermediate_size, 11264);  // 86 · 128 = 22 · 512
  config.intermediate_size = 16 * 709;
  EXPECT_EQ(task_sizes(config, kWorkers).intermediate_size, 11776);
  config.vocab_size = 4 * 12569;  // a prime number of words
  EXPECT_EQ(task_sizes(config, kWorkers).vocab_size % 64, 0);
}

/// Whatever the sizes: products of the filled-up model take the busiest worker at most a quarter more than an equal
/// share at full bandwidth; those of the head, in many small tasks, two fifths.
TEST(TaskSizes, LeaveNoWorkerMuchMoreThanItsShare) {
  Random random(5);
  for (int tries = 0; tries < 100; ++tries) {
    ModelConfig config =
        sized(static_cast<int64_t>(20000 + random.below(200000)), static_cast<int64_t>(4096 + random.below(16000)));
    config.hidden_size = 512 * static_cast<int64_t>(4 + random.below(8));
    const ModelConfig filled = task_sizes(config, kWorkers);
    EXPECT_GE(filled.vocab_size, config.vocab_size);
    EXPECT_GE(filled.intermediate_size, config.intermediate_size);
    const auto seconds = [&](const std::vector<int64_t>& columns, int64_t terms) {
      return cut_product(columns, terms, {.workers = kWorkers}).seconds;
    };
    const auto share = [](int64_t elements) { return static_cast<double>(elements) * 2 / 4.39e12; };
    const int64_t hidden = config.hidden_size, middle = config.intermediate_size;
    SCOPED_TRACE(fmt::format("{} hidden, {} middle, {} vocabulary", hidden, middle, config.vocab_size));
    EXPECT_LE(seconds({filled.intermediate_size, filled.intermediate_size}, hidden) +
                  seconds({hidden}, filled.intermediate_size),
              1.25 * share(3 * hidden * middle) + 12e-6);
    EXPECT_LE(seconds({filled.vocab_size}, hidden), 1.4 * share(config.vocab_size * hidden) + 12e-6);
  }
}

TEST(FilledUp, HasZerosAfterRowsAndColumns) {
  const std::vector<uint16_t> values{1, 2, 3, 4, 5, 6};
  const WeightView matrix{{2, 3}, values};
  const auto filled = filled_up(matrix, {"w", {3, 4}});
  ASSERT_TRUE(filled);
  EXPECT_EQ(*filled, (std::vector<uint16_t>{1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0, 0}));
  EXPECT_EQ(filled_up(matrix, {"w", {2, 3}}), values);
}

TEST(FilledUp, RefusesWhatDoesNotFit) {
  const std::vector<uint16_t> values{1, 2, 3, 4, 5, 6};
  for (const WeightSpec& spec : {WeightSpec{"w", {2, 2}}, WeightSpec{"w", {1, 3}}, WeightSpec{"w", {6}}}) {
    const auto filled = filled_up({{2, 3}, values}, spec);
    ASSERT_FALSE(filled);
    EXPECT_THAT(filled.error().to_string(), testing::HasSubstr("weight 'w' is [2, 3]"));
  }
}

}  // namespace
}  // namespace strata::megakernel
