#include "megakernel/models/reference_decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "megakernel/models/bf16.h"
#include "megakernel/models/sampling.h"
#include "megakernel/models/test_models.h"
#include "support/random.h"

// That the logits are right is tests/models/decode_test.py's, against NumPy.

namespace strata::megakernel {
namespace {

template <class T>
ReferenceDecoder<T> decoder_of(const ModelConfig& config, const ModelWeights& weights,
                               const ReferenceOptions& options) {
  auto decoder = ReferenceDecoder<T>::create(config, weights, options);
  if (!decoder) {
    ADD_FAILURE() << decoder.error().to_string();
    std::abort();
  }
  return std::move(*decoder);
}

template <class T>
Tensor<T> step(ReferenceDecoder<T>& decoder, const std::vector<int64_t>& tokens) {
  auto logits = decoder.step(tokens);
  if (!logits) ADD_FAILURE() << logits.error().to_string();
  return logits ? std::move(*logits) : Tensor<T>{};
}

template <class T>
std::vector<T> row_of(const Tensor<T>& logits, int64_t row) {
  const int64_t words = logits.shape[1];
  return {logits.data.begin() + row * words, logits.data.begin() + (row + 1) * words};
}

class ReferenceDecode : public testing::TestWithParam<ModelFamily> {
 protected:
  ModelConfig config_ = tiny_config(GetParam());
  ModelWeights weights_ = std::move(*ModelWeights::random(config_, 5));
};

/// A sequence of a batch has the logits that it has alone, to the bit, whenever it begins.
TEST_P(ReferenceDecode, SequencesDoNotSeeEachOther) {
  constexpr int64_t kBatch = 3, kCapacity = 9;
  auto batch = decoder_of<float>(config_, weights_, {kBatch, kCapacity});
  std::vector<ReferenceDecoder<float>> alone;
  for (int64_t b = 0; b < kBatch; ++b) alone.push_back(decoder_of<float>(config_, weights_, {1, kCapacity}));
  Random random(1);
  for (int n = 0; n < 14; ++n) {
    std::vector<int64_t> tokens;
    for (int64_t b = 0; b < kBatch; ++b) {
      const bool full = batch.lengths()[static_cast<size_t>(b)] == kCapacity;
      if (full || random.below(6) == 0) {
        ASSERT_TRUE(batch.restart(b));
        alone[static_cast<size_t>(b)] = decoder_of<float>(config_, weights_, {1, kCapacity});
      }
      tokens.push_back(static_cast<int64_t>(random.below(static_cast<uint64_t>(config_.vocab_size))));
    }
    const Tensor<float> logits = step(batch, tokens);
    for (int64_t b = 0; b < kBatch; ++b) {
      auto& single = alone[static_cast<size_t>(b)];
      EXPECT_EQ(row_of(logits, b), step(single, {tokens[static_cast<size_t>(b)]}).data);
      EXPECT_EQ(batch.lengths()[static_cast<size_t>(b)], single.lengths()[0]);
    }
  }
}

TEST_P(ReferenceDecode, PrecisionsAgreeAsFarAsTheyGo) {
  auto wide = decoder_of<double>(config_, weights_, {1, 16});
  auto narrow = decoder_of<float>(config_, weights_, {1, 16});
  auto rounded = decoder_of<float>(config_, weights_, {1, 16, true});
  double error = 0, rounding = 0, most = 0;
  int64_t token = 1;
  for (int n = 0; n < 16; ++n) {
    const Tensor<double> expected = step(wide, {token});
    const Tensor<float> single = step(narrow, {token});
    const Tensor<float> bf16 = step(rounded, {token});
    for (int64_t i = 0; i < expected.size(); ++i) {
      most = std::max(most, std::fabs(expected[i]));
      error = std::max(error, std::fabs(single[i] - expected[i]));
      rounding = std::max(rounding, std::fabs(bf16[i] - expected[i]));
    }
    token = argmax(std::span<const double>(expected.data));
  }
  EXPECT_LT(error, 1e-5 * most);
  EXPECT_LT(rounding, 0.1 * most);
  EXPECT_GT(rounding, 1e-4 * most);  // it does round
}

/// Weights whose scores are far outside the float's exponentials, on both sides: 88 and −104. That they are is asserted
/// by tests/models/decode_test.py, with NumPy.
TEST_P(ReferenceDecode, LargeScoresDoNotOverflow) {
  constexpr float kLarger = 64;
  std::vector<SafeTensor> tensors = weights_.tensors();
  std::vector<std::vector<uint16_t>> changed;
  const char* const grown = GetParam() == ModelFamily::Qwen3 ? "q_norm.weight" : "q_proj.weight";
  for (SafeTensor& tensor : tensors) {
    if (tensor.name.find(grown) == std::string::npos) continue;
    auto& values = changed.emplace_back(tensor.bytes.size() / sizeof(uint16_t));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    for (uint16_t& value : values) value = float_to_bf16(kLarger * bf16_to_float(value));
    tensor.bytes = std::as_bytes(std::span(values));
  }
  ASSERT_EQ(changed.size(), static_cast<size_t>(config_.num_hidden_layers));
  const auto weights = ModelWeights::of(tensors, config_);
  ASSERT_TRUE(weights) << weights.error().to_string();
  auto wide = decoder_of<double>(config_, *weights, {1, 16});
  auto narrow = decoder_of<float>(config_, *weights, {1, 16});
  double error = 0, most = 0;
  for (int64_t n = 0; n < 16; ++n) {
    const Tensor<double> expected = step(wide, {n * 37 % 101});
    const Tensor<float> single = step(narrow, {n * 37 % 101});
    for (int64_t i = 0; i < expected.size(); ++i) {
      most = std::max(most, std::fabs(expected[i]));
      error = std::max(error, std::fabs(single[i] - expected[i]));
    }
  }
  EXPECT_LT(error, 1e-3 * most);  // of scores of hundreds, whose roundings are as much larger
}

TEST_P(ReferenceDecode, EarlierTokensMatter) {
  auto a = decoder_of<float>(config_, weights_, {1, 4});
  auto b = decoder_of<float>(config_, weights_, {1, 4});
  step(a, {3});
  step(b, {4});
  EXPECT_NE(step(a, {5}).data, step(b, {5}).data);
}

TEST_P(ReferenceDecode, WhatDoesNotFitIsAnErrorAndChangesNothing) {
  auto decoder = decoder_of<float>(config_, weights_, {2, 3});
  const auto error = [&](const std::vector<int64_t>& tokens) {
    const auto logits = decoder.step(tokens);
    return logits ? "none" : logits.error().to_string();
  };
  step(decoder, {1, 2});
  EXPECT_THAT(error({1}), testing::HasSubstr("1 tokens for 2 sequences"));
  EXPECT_THAT(error({0, 101}), testing::HasSubstr("the token 101 of sequence 1"));
  EXPECT_THAT(error({-1, 0}), testing::HasSubstr("tokens are 0 to 100"));
  EXPECT_THAT(decoder.lengths(), testing::ElementsAre(1, 1));
  step(decoder, {1, 2});
  step(decoder, {1, 2});
  EXPECT_THAT(error({1, 2}), testing::HasSubstr("sequence 0 has 3 tokens already"));
  EXPECT_FALSE(decoder.restart(2));
  EXPECT_FALSE(decoder.restart(-1));
  ModelConfig other = config_;
  other.intermediate_size = 32;
  const auto wrong = ReferenceDecoder<float>::create(other, weights_);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, testing::HasSubstr("mlp.gate_proj.weight"));
  EXPECT_FALSE(ReferenceDecoder<float>::create(config_, weights_, {0, 3}));
}

INSTANTIATE_TEST_SUITE_P(Families, ReferenceDecode, testing::Values(ModelFamily::Qwen3, ModelFamily::Llama));

}  // namespace
}  // namespace strata::megakernel
