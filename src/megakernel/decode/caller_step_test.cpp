// Steps whose keys, values and logits lie in a caller's memory, beside generations of the same decoder.
#include "megakernel/decode/caller_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "megakernel/decode/decoder.h"
#include "megakernel/decode/fiber_decode.h"
#include "megakernel/models/bf16.h"
#include "megakernel/models/reference_decode.h"
#include "megakernel/models/test_models.h"
#include "superopt/codegen/test_host.h"

namespace strata::megakernel {
namespace {

constexpr int64_t kPositions = 37;  ///< of the caller's caches: no multiple of a tile
const std::vector<std::vector<int>> kTokens{{3, 17, 200, 5, 90, 131, 2, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55},
                                            {131, 9, 64, 77, 12, 1, 8, 3, 2, 1, 33, 34, 35, 36, 37, 38, 39, 40, 41}};

ModelConfig config_of(ModelFamily family) {
  ModelConfig config = tiny_config(family);
  config.hidden_size = 128;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 32;
  config.intermediate_size = 100;
  config.vocab_size = 201;
  config.max_position_embeddings = 512;
  return config;
}

std::vector<int> tokens_at(size_t position, int64_t batch) {
  std::vector<int> tokens;
  for (int64_t s = 0; s < batch; ++s) tokens.push_back(kTokens[static_cast<size_t>(s)][position]);
  return tokens;
}

struct CallerCase {
  ModelFamily family;
  int64_t batch;
  int64_t splits;
};

/// A session of the device code on the host, whose memory a caller has caches in too.
class CallerSteps : public testing::TestWithParam<CallerCase> {
 protected:
  void SetUp() override {
    config_ = config_of(GetParam().family);
    auto weights = ModelWeights::random(config_, 1);
    ASSERT_TRUE(weights) << weights.error().to_string();
    weights_.emplace(std::move(*weights));
    auto target = FiberDecodeTarget::open(kPlainHost);
    ASSERT_TRUE(target) << target.error().to_string();
    target_ = std::move(*target);
    DecodeOptions options;
    options.batch = GetParam().batch;
    options.capacity = 64;
    options.machine.workers = 4 * static_cast<int>(GetParam().splits);
    auto session = DecodeSession::make(*target_, config_, *weights_, options);
    ASSERT_TRUE(session) << session.error().to_string();
    session_ = std::move(*session);
    EXPECT_EQ(session_->image().splits, GetParam().splits);
    for (int64_t n = 0; n < 2 * config_.num_hidden_layers; ++n)
      memory_.push_back(allocate(GetParam().batch * config_.key_columns() * kPositions));
    memory_.push_back(allocate(GetParam().batch * config_.vocab_size));
  }

  std::unique_ptr<DecodeMemory> allocate(int64_t elements) {
    auto memory = target_->allocate(elements * 2);
    EXPECT_TRUE(memory) << memory.error().to_string();
    EXPECT_TRUE((*memory)->clear());
    return std::move(*memory);
  }
  CallerStep step_at(int64_t position, bool takes_caches) const {
    CallerStep step{tokens_at(static_cast<size_t>(position), GetParam().batch),
                    position,
                    {},
                    kPositions,
                    takes_caches,
                    memory_.back()->address()};
    for (size_t n = 0; n + 1 < memory_.size(); n += 2)
      step.caches.push_back({memory_[n]->address(), memory_[n + 1]->address()});
    return step;
  }
  /// The caller's logits after a step.
  std::string stepped(int64_t position, bool takes_caches) {
    const auto done = session_->step(step_at(position, takes_caches));
    EXPECT_TRUE(done) << done.error().to_string();
    return *memory_.back()->download();
  }
  /// Those of a generation fed the same tokens, as its logits say them.
  std::string fed(int64_t position) {
    std::vector<std::vector<int>> prompts;
    for (const int token : tokens_at(static_cast<size_t>(position), GetParam().batch)) prompts.push_back({token});
    const auto made = session_->generate(prompts, {.tokens = 1});
    EXPECT_TRUE(made) << made.error().to_string();
    std::string bits;
    for (int64_t s = 0; s < GetParam().batch; ++s) {
      const auto logits = session_->logits(s);
      for (const float value : *logits) {
        const uint16_t one = float_to_bf16(value);
        bits.append(reinterpret_cast<const char*>(&one), sizeof one);
      }
    }
    return bits;
  }

  ModelConfig config_;
  std::optional<ModelWeights> weights_;
  std::unique_ptr<FiberDecodeTarget> target_;
  std::unique_ptr<DecodeSession> session_;
  std::vector<std::unique_ptr<DecodeMemory>> memory_;  ///< keys and values of each layer; logits
};

TEST_P(CallerSteps, HaveTheBitsOfAGeneration) {
  const auto last = static_cast<int64_t>(kTokens[0].size());
  std::vector<std::string> generated;
  for (int64_t position = 0; position < last; ++position) generated.push_back(fed(position));
  session_->set_position(0);
  for (int64_t position = 0; position < last; ++position)
    EXPECT_EQ(stepped(position, false), generated[static_cast<size_t>(position)]) << position;
  // Another sequence goes over the session's caches; the caller's still have the first.
  for (int64_t position = 0; position < last; ++position) {
    CallerStep other = step_at(position, position == 0);
    for (int& token : other.tokens) token = 200 - token;
    std::vector<std::unique_ptr<DecodeMemory>> scratch;
    for (CallerCache& cache : other.caches) {
      for (uint64_t* const address : {&cache.keys, &cache.values}) {
        scratch.push_back(allocate(GetParam().batch * config_.key_columns() * kPositions));
        *address = scratch.back()->address();
      }
    }
    ASSERT_TRUE(session_->step(other));
  }
  EXPECT_NE(stepped(last - 1, false), generated.back()) << "rows of the other sequence were read";
  EXPECT_EQ(stepped(last - 1, true), generated.back());
  EXPECT_EQ(stepped(3, true), generated[3]) << "earlier positions, of which later rows are hidden";
}

TEST_P(CallerSteps, WriteNoRowsButTheirOwn) {
  std::vector<std::string> before;
  for (size_t n = 0; n + 1 < memory_.size(); ++n) {
    std::string bytes(static_cast<size_t>(GetParam().batch * config_.key_columns() * kPositions) * 2, '\x3c');
    ASSERT_TRUE(memory_[n]->upload(bytes));
    before.push_back(std::move(bytes));
  }
  constexpr int64_t kPosition = 17;
  stepped(kPosition, true);
  const auto row_bytes = static_cast<size_t>(config_.head_dim * 2);
  for (size_t n = 0; n + 1 < memory_.size(); ++n) {
    std::string after = *memory_[n]->download();
    for (int64_t head = 0; head < GetParam().batch * config_.num_key_value_heads; ++head) {
      const size_t at = static_cast<size_t>(head * kPositions + kPosition) * row_bytes;
      EXPECT_NE(after.substr(at, row_bytes), before[n].substr(at, row_bytes)) << n << ", head " << head;
      after.replace(at, row_bytes, before[n], at, row_bytes);
    }
    EXPECT_EQ(after, before[n]) << n;
  }
}

TEST_P(CallerSteps, SayWhatDoesNotFit) {
  const auto message = [&](auto change) {
    CallerStep step = step_at(0, false);
    change(step);
    const auto done = session_->step(step);
    return done ? std::string("no error") : done.error().to_string();
  };
  EXPECT_THAT(message([](CallerStep& step) { step.tokens.push_back(1); }), testing::HasSubstr("tokens for"));
  EXPECT_THAT(message([](CallerStep& step) { step.tokens[0] = 201; }),
              testing::HasSubstr("token 201 is not in the vocabulary of 201"));
  EXPECT_THAT(message([](CallerStep& step) { step.caches.pop_back(); }), testing::HasSubstr("caches for"));
  EXPECT_THAT(message([](CallerStep& step) { step.position = kPositions; }),
              testing::HasSubstr("position 37: the cache has 37 positions"));
}

INSTANTIATE_TEST_SUITE_P(TinyModels, CallerSteps,
                         testing::Values(CallerCase{ModelFamily::Qwen3, 2, 1}, CallerCase{ModelFamily::Llama, 1, 2}),
                         [](const auto& test) {
                           return fmt::format("{}_batch{}", test.param.family == ModelFamily::Qwen3 ? "qwen3" : "llama",
                                              test.param.batch);
                         });

/// Through the interpreter: rows that go to a caller rounded come back, so the error is that of rounding a cache.
TEST(CallerStepsOfAnInterpreter, AgreeWithTheReference) {
  for (const ModelFamily family : {ModelFamily::Qwen3, ModelFamily::Llama}) {
    const ModelConfig config = config_of(family);
    const auto weights = ModelWeights::random(config, 1);
    ASSERT_TRUE(weights);
    DecodeOptions options;
    options.batch = 2;
    options.capacity = kPositions;
    auto decoder = Decoder::interpreted(config, *weights, options);
    ASSERT_TRUE(decoder) << decoder.error().to_string();
    auto exact = ReferenceDecoder<double>::create(config, *weights, {.batch = 2, .capacity = kPositions});
    ASSERT_TRUE(exact);
    const auto of_cache = static_cast<size_t>(2 * config.key_columns() * kPositions);
    std::vector<std::vector<uint16_t>> caches(static_cast<size_t>(2 * config.num_hidden_layers));
    for (std::vector<uint16_t>& one : caches) one.assign(of_cache, 0x7fc0);  // NaN where nothing was written
    std::vector<uint16_t> logits(static_cast<size_t>(2 * config.vocab_size));
    for (int64_t position = 0; position < 8; ++position) {
      CallerStep step{tokens_at(static_cast<size_t>(position), 2), position, {}, kPositions, position % 3 == 2,
                      reinterpret_cast<uint64_t>(logits.data())};
      for (size_t n = 0; n < caches.size(); n += 2)
        step.caches.push_back(
            {reinterpret_cast<uint64_t>(caches[n].data()), reinterpret_cast<uint64_t>(caches[n + 1].data())});
      const auto done = (*decoder)->step(step);
      ASSERT_TRUE(done) << done.error().to_string();
      const auto expected = exact->step(std::vector<int64_t>(step.tokens.begin(), step.tokens.end()));
      ASSERT_TRUE(expected);
      double largest = 0;
      for (const double value : expected->data) largest = std::max(largest, std::fabs(value));
      for (size_t n = 0; n < logits.size(); ++n)
        EXPECT_NEAR(bf16_to_float(logits[n]), expected->data[n], largest / 64) << position << ", " << n;
    }
  }
}

}  // namespace
}  // namespace strata::megakernel
