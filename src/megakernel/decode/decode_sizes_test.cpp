#include "megakernel/decode/decode_sizes.h"

#include <gtest/gtest.h>

#include "megakernel/models/test_models.h"

namespace strata::megakernel {
namespace {

ModelConfig sized(int64_t vocabulary, int64_t intermediate) {
  ModelConfig config = tiny_config(ModelFamily::Llama);
  config.vocab_size = vocabulary;
  config.intermediate_size = intermediate;
  return config;
}

TEST(TaskSizes, AreTheModelsOwnWhereTasksTakeThem) {
  for (const std::string& name : preset_names()) EXPECT_EQ(task_sizes(*preset_config(name)), *preset_config(name));
  for (const ModelConfig& config : {sized(4, 32), sized(50284, 5776), sized(92556, 48)})
    EXPECT_EQ(task_sizes(config), config);
}

TEST(TaskSizes, AreFilledUpToWhatTasksDivide) {
  EXPECT_EQ(task_sizes(sized(32001, 11008)), sized(32064, 11008));
  EXPECT_EQ(task_sizes(sized(50257, 16)), sized(50304, 64));
  EXPECT_EQ(task_sizes(sized(1, 1)), sized(64, 64));
  EXPECT_EQ(task_sizes(sized(63, 1000)), sized(64, 1024));
}

TEST(FilledUp, HasZerosBehindRowsAndColumns) {
  const std::vector<uint16_t> values{1, 2, 3, 4, 5, 6};
  const WeightView matrix{{2, 3}, values};
  EXPECT_EQ(filled_up(matrix, 3, 4), (std::vector<uint16_t>{1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0, 0}));
  EXPECT_EQ(filled_up(matrix, 2, 3), values);
}

}  // namespace
}  // namespace strata::megakernel
