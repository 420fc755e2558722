// Decode steps on a GPU in both forms, the mega-kernel and the graph of kernels: the same tokens and logits, bit for
// bit. It needs a GPU from Hopper on, the driver and NVRTC; see tests/gpu/README.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "megakernel/decode/cuda_decode.h"
#include "megakernel/decode/decode_session.h"
#include "megakernel/models/test_models.h"
#include "megakernel/runtime/timeline.h"

namespace strata::megakernel {
namespace {

/// As in decode_host_test.cpp: several tasks of each operator for a worker, heads that share keys.
ModelConfig decoded_config(ModelFamily family) {
  ModelConfig config = tiny_config(family);
  config.hidden_size = 128;
  config.num_attention_heads = 4;
  config.num_key_value_heads = family == ModelFamily::Qwen3 ? 2 : 1;
  config.head_dim = family == ModelFamily::Qwen3 ? 64 : 32;
  config.intermediate_size = 128;
  config.vocab_size = 256;
  return config;
}

struct GpuDecode {
  ModelFamily family;
  int64_t batch;
  int64_t capacity;
  int workers;
};

class GpuDecodes : public testing::TestWithParam<GpuDecode> {};

TEST_P(GpuDecodes, HaveTheSameBitsInBothForms) {
  const auto& [family, batch, capacity, workers] = GetParam();
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device) << device.error().to_string();
  const ModelConfig config = decoded_config(family);
  const auto weights = ModelWeights::random(config, 1);
  ASSERT_TRUE(weights) << weights.error().to_string();
  const std::vector<std::vector<int>> all{{3, 17, 200}, {131, 9, 64}};
  const std::vector<std::vector<int>> prompts(all.begin(), all.begin() + batch);
  const std::vector<SamplingOptions> sampling{{.temperature = 2, .top_k = 50, .seed = 5}};
  constexpr int64_t kTokens = 24;

  std::vector<std::vector<int>> expected;
  std::vector<float> logits;
  for (const DecodeMode mode : {DecodeMode::Megakernel, DecodeMode::Graph, DecodeMode::Auto}) {
    SCOPED_TRACE(static_cast<int>(mode));
    CudaDecodeTarget target(**device, target_of(**device));
    DecodeOptions options;
    options.batch = batch;
    options.capacity = capacity;
    options.machine.workers = workers;
    options.mode = mode;
    const auto session = DecodeSession::make(target, config, *weights, options);
    ASSERT_TRUE(session) << session.error().to_string();
    if (const auto& times = (*session)->measured()) {
      EXPECT_EQ(times->no_graph, "");
      fmt::print("mega-kernel {:.1f} us a step, graph {:.1f} us\n", times->megakernel * 1e6, times->graph * 1e6);
    }
    // Again and again, so that epochs go on and the graph is started anew.
    for (int repetition = 0; repetition < 20; ++repetition) {
      (*session)->set_position(0);
      const auto made = (*session)->generate(prompts, {.tokens = kTokens, .sampling = sampling});
      ASSERT_TRUE(made) << made.error().to_string();
      const auto found = (*session)->logits(batch - 1);
      ASSERT_TRUE(found) << found.error().to_string();
      if (expected.empty()) {
        expected = *made;
        logits = *found;
      }
      EXPECT_EQ(*made, expected);
      EXPECT_EQ(*found, logits);
    }
    // Sequences that end early, with steps that were started and do nothing.
    std::vector<int> stop;
    for (const auto& sequence : expected) stop.push_back(sequence[5]);
    (*session)->set_position(0);
    const auto some = (*session)->generate(prompts, {.tokens = kTokens, .sampling = sampling, .stop_tokens = stop});
    ASSERT_TRUE(some) << some.error().to_string();
    for (size_t s = 0; s < some->size(); ++s) {
      const std::vector<int>& made = (*some)[s];
      EXPECT_LE(made.size(), 6U);
      EXPECT_TRUE(std::equal(made.begin(), made.end(), expected[s].begin()));
    }
  }
}

/// Prompts of several tokens at once are followed by the tokens of one by one. (decode_host_test.cpp has more of it.)
TEST_P(GpuDecodes, TakePromptsSeveralPositionsAtOnce) {
  const auto& [family, batch, capacity, workers] = GetParam();
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device) << device.error().to_string();
  const ModelConfig config = decoded_config(family);
  const auto weights = ModelWeights::random(config, 1);
  ASSERT_TRUE(weights);
  std::vector<std::vector<int>> prompts(static_cast<size_t>(batch));
  for (size_t s = 0; s < prompts.size(); ++s)
    for (size_t n = 0; n < 37 + 3 * s; ++n) prompts[s].push_back(static_cast<int>((n * 31 + s * 57 + 3) % 256));
  for (const DecodeMode mode : {DecodeMode::Megakernel, DecodeMode::Graph}) {
    std::vector<std::vector<std::vector<int>>> found;
    for (const int64_t rows : {1, 16}) {
      CudaDecodeTarget target(**device, target_of(**device));
      const auto session = DecodeSession::make(
          target, config, *weights,
          {.batch = batch, .capacity = capacity, .machine = {.workers = workers}, .mode = mode, .prompt_rows = rows});
      ASSERT_TRUE(session) << session.error().to_string();
      for (int repetition = 0; repetition < 5; ++repetition) {
        (*session)->set_position(0);
        const auto made = (*session)->generate(prompts, {.tokens = 12});
        ASSERT_TRUE(made) << made.error().to_string();
        found.push_back(*made);
      }
      EXPECT_EQ((*session)->no_prompt_step(), "");
      EXPECT_EQ((*session)->prompt_positions() > 1, rows > 1);
    }
    EXPECT_THAT(found, testing::Each(found.front()));
  }
}

/// A graph's kernels record each task of a step once, on a multiprocessor.
TEST(GpuTraces, HaveAllTasksOfAGraphsStep) {
  const auto device = GpuDevice::open();
  ASSERT_TRUE(device) << device.error().to_string();
  const ModelConfig config = decoded_config(ModelFamily::Llama);
  const auto weights = ModelWeights::random(config, 1);
  ASSERT_TRUE(weights);
  CudaDecodeTarget target(**device, target_of(**device));
  const auto session =
      DecodeSession::make(target, config, *weights,
                          {.capacity = 64, .machine = {.workers = 8}, .profile = true, .mode = DecodeMode::Graph});
  ASSERT_TRUE(session) << session.error().to_string();
  ASSERT_TRUE((*session)->generate({{3}}, {.tokens = 5}));
  const auto traced = (*session)->trace();
  ASSERT_TRUE(traced) << traced.error().to_string();
  for (const TracedTask& task : *traced) {
    EXPECT_GE(task.multiprocessor, 0);
    EXPECT_LE(task.record.begin, task.record.end);
  }
  const auto timeline = step_timeline((*session)->plan(), *traced);
  ASSERT_TRUE(timeline) << timeline.error().to_string();
  EXPECT_EQ(timeline->epoch, 5U);
}

INSTANTIATE_TEST_SUITE_P(TinyModels, GpuDecodes,
                         testing::Values(GpuDecode{ModelFamily::Qwen3, 1, 128, 4},
                                         GpuDecode{ModelFamily::Qwen3, 2, 64, 2},
                                         GpuDecode{ModelFamily::Llama, 1, 64, 2},
                                         GpuDecode{ModelFamily::Llama, 2, 128, 128}));

}  // namespace
}  // namespace strata::megakernel
