#include "megakernel/models/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "megakernel/models/bf16.h"
#include "megakernel/models/test_models.h"
#include "ops/arithmetic.h"
#include "support/random.h"
#include "support/temporary_folder.h"
#include "support/write_file.h"

namespace strata::megakernel {
namespace {

using testing::HasSubstr;

TEST(Bf16, RoundsAsTheInterpreterDoes) {
  Random random(1);
  for (int test = 0; test < 100000; ++test) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    const uint16_t bits = float_to_bf16(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_float(bits)));
    } else {
      EXPECT_EQ(static_cast<double>(bf16_to_float(bits)), round_to(value, DType::BF16)) << value;
    }
  }
}

TEST(WeightSpecs, AddUpToThePublishedNumbersOfParameters) {
  const std::map<std::string, int64_t> published{{"qwen3-0.6b", 596'049'920},
                                                 {"qwen3-1.7b", 1'720'574'976},
                                                 {"qwen3-8b", 8'190'735'360},
                                                 {"llama-3.2-1b", 1'235'814'400},
                                                 {"llama-3-8b", 8'030'261'248}};
  for (const std::string& name : preset_names()) {
    int64_t parameters = 0;
    for (const WeightSpec& spec : weight_specs(*preset_config(name))) parameters += spec.elements();
    EXPECT_EQ(parameters, published.at(name)) << name;
  }
}

TEST(DrawnWeights, AreTheSameInPiecesAndAlone) {
  const WeightSpec spec{"model.layers.1.mlp.up_proj.weight", {600, 1000}};
  std::vector<uint16_t> whole(600 * 1000);
  draw_weight(spec, 7, 0, whole);
  Random random(1);
  for (int test = 0; test < 20; ++test) {
    const size_t first = random.below(whole.size());
    std::vector<uint16_t> piece(random.below(whole.size() - first) + 1);
    draw_weight(spec, 7, static_cast<int64_t>(first), piece);
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + static_cast<int64_t>(first)));
  }
  const auto config = tiny_config(ModelFamily::Qwen3);
  const auto weights = ModelWeights::random(config, 7);
  ASSERT_TRUE(weights);
  for (const WeightSpec& each : weight_specs(config)) {
    std::vector<uint16_t> alone(static_cast<size_t>(each.elements()));
    draw_weight(each, 7, 0, alone);
    const auto view = weights->at(each.name);
    ASSERT_TRUE(view);
    EXPECT_EQ(view->shape, each.shape);
    EXPECT_TRUE(std::equal(view->values.begin(), view->values.end(), alone.begin(), alone.end()));
  }
  // A change of the generator changes what benchmarks ran on: it is a change of these numbers too.
  EXPECT_THAT(std::vector(whole.begin(), whole.begin() + 4), testing::ElementsAre(15632, 48287, 15747, 48327));
}

TEST(DrawnWeights, HaveTheirDeviationAndDifferByNameAndSeed) {
  const auto moments = [](const WeightSpec& spec, uint64_t seed) {
    std::vector<uint16_t> values(static_cast<size_t>(spec.elements()));
    draw_weight(spec, seed, 0, values);
    double sum = 0, squares = 0, fourth = 0;
    for (const uint16_t value : values) sum += bf16_to_float(value);
    const double mean = sum / static_cast<double>(values.size());
    for (const uint16_t value : values) {
      const double x = bf16_to_float(value) - mean;
      squares += x * x;
      fourth += x * x * x * x;
    }
    const double variance = squares / static_cast<double>(values.size());
    return std::array{mean, std::sqrt(variance), fourth / static_cast<double>(values.size()) / (variance * variance)};
  };
  const auto matrix = moments({"a", {500, 1024}}, 1);
  EXPECT_NEAR(matrix[0], 0, 3e-4);
  EXPECT_NEAR(matrix[1], 1.0 / 32, 2e-4);
  EXPECT_NEAR(matrix[2], 2.7, 0.05);  // of the sum of four uniform numbers; 3 is normal
  const auto norm = moments({"b", {400000}}, 1);
  EXPECT_NEAR(norm[0], 1, 1e-3);
  EXPECT_NEAR(norm[1], 1.0 / 16, 1e-3);
  // Neighbouring seeds and names: correlations of 10^5 numbers.
  const auto drawn = [](const char* name, uint64_t seed) {
    std::vector<uint16_t> values(100000);
    draw_weight({name, {100, 1000}}, seed, 0, values);
    return values;
  };
  const auto correlation = [](const std::vector<uint16_t>& a, const std::vector<uint16_t>& b, size_t shift) {
    double sum = 0;
    for (size_t i = shift; i < a.size(); ++i) sum += 1000.0 * bf16_to_float(a[i]) * bf16_to_float(b[i - shift]);
    return sum / static_cast<double>(a.size());
  };
  const auto base = drawn("a", 1);
  for (const size_t shift : {0, 1, 2}) {
    EXPECT_NEAR(correlation(base, drawn("a", 2), shift), 0, 0.02);
    EXPECT_NEAR(correlation(base, drawn("b", 1), shift), 0, 0.02);
    EXPECT_NEAR(correlation(base, base, shift), shift == 0 ? 1 : 0, 0.02);
  }
}

class WeightFiles : public testing::Test {
 protected:
  std::string path(const char* name) const { return (folder_.path() / name).string(); }
  void write(const char* name, const std::vector<SafeTensor>& tensors) {
    const auto written = write_safetensors(path(name), tensors);
    ASSERT_TRUE(written) << written.error().to_string();
  }
  void write_index(const std::map<std::string, std::string>& files) {
    const nlohmann::json json{{"metadata", {{"total_size", 0}}}, {"weight_map", files}};
    ASSERT_TRUE(write_file(path("model.safetensors.index.json"), json.dump(), Sync::None));
  }
  static void expect_same(const Result<ModelWeights>& found, const ModelWeights& expected) {
    ASSERT_TRUE(found) << found.error().to_string();
    for (const SafeTensor& tensor : expected.tensors()) {
      const auto view = found->at(tensor.name);
      ASSERT_TRUE(view) << view.error().to_string();
      const auto bytes = std::as_bytes(view->values);
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), tensor.bytes.begin(), tensor.bytes.end())) << tensor.name;
    }
  }
  std::string error_of(const ModelConfig& config) const {
    const auto weights = ModelWeights::open(folder_.path().string(), config);
    return weights ? "none" : weights.error().message;
  }

  TemporaryFolder folder_{"strata-weights"};
};

TEST_F(WeightFiles, OneFileComesBack) {
  for (const ModelFamily family : {ModelFamily::Qwen3, ModelFamily::Llama}) {
    for (const bool tied : {false, true}) {
      const ModelConfig config = tiny_config(family, tied);
      const auto drawn = ModelWeights::random(config, 3);
      ASSERT_TRUE(drawn);
      write("model.safetensors", drawn->tensors());
      for (const std::string& given : {path("model.safetensors"), folder_.path().string()})
        expect_same(ModelWeights::open(given, config), *drawn);
      const auto head = drawn->at("lm_head.weight");
      const auto embeddings = drawn->at("model.embed_tokens.weight");
      ASSERT_TRUE(head && embeddings);
      EXPECT_EQ(head->values.data() == embeddings->values.data(), tied);
    }
  }
}

TEST_F(WeightFiles, ShardsComeBack) {
  const ModelConfig config = tiny_config(ModelFamily::Qwen3);
  const auto drawn = ModelWeights::random(config, 3);
  ASSERT_TRUE(drawn);
  std::vector<SafeTensor> first, second;
  std::map<std::string, std::string> files;
  for (const SafeTensor& tensor : drawn->tensors()) {
    const bool early = first.size() < 10;
    (early ? first : second).push_back(tensor);
    files[tensor.name] = early ? "model-1.safetensors" : "model-2.safetensors";
  }
  write("model-1.safetensors", first);
  write("model-2.safetensors", second);
  write_index(files);
  expect_same(ModelWeights::open(folder_.path().string(), config), *drawn);
  expect_same(ModelWeights::open(path("model.safetensors.index.json"), config), *drawn);

  const std::string some = second.front().name;
  auto changed = files;
  changed[some] = "model-1.safetensors";
  write_index(changed);
  EXPECT_THAT(error_of(config), HasSubstr(fmt::format("'model-1.safetensors' has no tensor '{}'", some)));
  changed = files;
  changed.erase(some);
  write_index(changed);
  EXPECT_THAT(error_of(config), HasSubstr(fmt::format("the tensor '{}' of 'model-2.safetensors' is not in", some)));
  for (const char* outside : {"../x.safetensors", "/x.safetensors", "..", ""}) {
    changed = files;
    changed[some] = outside;
    write_index(changed);
    EXPECT_THAT(error_of(config), HasSubstr(fmt::format("'{}' lies in '{}'", some, outside)));
  }
  changed = files;
  changed[some] = "missing.safetensors";
  write_index(changed);
  EXPECT_THAT(error_of(config), HasSubstr("cannot read"));
  ASSERT_TRUE(write_file(path("model.safetensors.index.json"), "{}", Sync::None));
  EXPECT_THAT(error_of(config), HasSubstr("no JSON object with a 'weight_map'"));
  const std::string twice = "{\"weight_map\": {\"a\": \"x.safetensors\", \"a\": \"y.safetensors\"}}";
  ASSERT_TRUE(write_file(path("model.safetensors.index.json"), twice, Sync::None));
  EXPECT_THAT(error_of(config), HasSubstr("index.json:1:41: the object has the key \"a\" twice"));
}

TEST_F(WeightFiles, WhatIsMissingOrUnexpectedIsNamed) {
  EXPECT_THAT(error_of(tiny_config(ModelFamily::Llama)), HasSubstr("has neither model.safetensors nor"));
  const ModelConfig config = tiny_config(ModelFamily::Llama);
  const auto drawn = ModelWeights::random(config, 3);
  ASSERT_TRUE(drawn);
  const std::vector<SafeTensor> all = drawn->tensors();
  std::vector<SafeTensor> some(all.begin() + 1, all.end());
  write("model.safetensors", some);
  EXPECT_THAT(error_of(config), HasSubstr("is without model.embed_tokens.weight"));
  some = all;
  some[2].name = "model.layers.0.self_attn.q_proj.bias";
  write("model.safetensors", some);
  EXPECT_THAT(error_of(config), HasSubstr("without model.layers.0.self_attn.q_proj.weight, with unexpected "
                                          "model.layers.0.self_attn.q_proj.bias"));
  write("model.safetensors", {all.begin(), all.begin() + 1});
  EXPECT_THAT(error_of(config), HasSubstr("and 16 more"));
  some = all;
  std::swap(some[1].shape, some[2].shape);
  std::swap(some[1].bytes, some[2].bytes);
  write("model.safetensors", some);
  EXPECT_THAT(error_of(config),
              HasSubstr("'model.layers.0.input_layernorm.weight' is [64, 64]; the configuration makes it [64]"));
  some = all;
  some[1].dtype = "F16";
  write("model.safetensors", some);
  EXPECT_THAT(error_of(config), HasSubstr("is F16"));
  // The families differ by the norms of queries and keys.
  write("model.safetensors", all);
  EXPECT_THAT(error_of(tiny_config(ModelFamily::Qwen3)), HasSubstr("without model.layers.0.self_attn.q_norm.weight"));
  const auto none = drawn->at("model.layers.2.input_layernorm.weight");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("no weight 'model.layers.2.input_layernorm.weight'"));
}

/// As transformers 5 does (modeling_utils.py, tie_weights).
TEST_F(WeightFiles, OfATiedModelMayHaveAHeadOfItsOwn) {
  const ModelConfig config = tiny_config(ModelFamily::Llama, true);
  const auto drawn = ModelWeights::random(tiny_config(ModelFamily::Llama), 3);
  ASSERT_TRUE(drawn);
  std::vector<SafeTensor> tensors = drawn->tensors();
  write("model.safetensors", tensors);
  const auto own = ModelWeights::open(folder_.path().string(), config);
  expect_same(own, *drawn);
  EXPECT_EQ(own->tensors().size(), tensors.size());
  EXPECT_THAT(own->notes(), testing::ElementsAre(HasSubstr("ties 'lm_head.weight' to the embeddings, and " +
                                                           path("model.safetensors") + " has another one")));

  tensors.back().bytes = tensors.front().bytes;
  write("model.safetensors", tensors);
  const auto equal = ModelWeights::open(folder_.path().string(), config);
  ASSERT_TRUE(equal) << equal.error().to_string();
  EXPECT_EQ(equal->at("lm_head.weight")->values.data(), equal->at("model.embed_tokens.weight")->values.data());
  EXPECT_TRUE(equal->notes().empty());

  tensors.erase(tensors.begin());
  write("model.safetensors", tensors);
  const auto alone = ModelWeights::open(folder_.path().string(), config);
  ASSERT_TRUE(alone) << alone.error().to_string();
  EXPECT_EQ(alone->at("lm_head.weight")->values.data(), alone->at("model.embed_tokens.weight")->values.data());
  tensors.back().dtype = "F16";
  write("model.safetensors", tensors);
  EXPECT_THAT(error_of(config), HasSubstr("tensor 'lm_head.weight' is F16"));
}

TEST_F(WeightFiles, OfOldVersionsHaveRotaryFrequencies) {
  const ModelConfig config = tiny_config(ModelFamily::Llama);
  const auto drawn = ModelWeights::random(config, 3);
  ASSERT_TRUE(drawn);
  std::vector<SafeTensor> tensors = drawn->tensors();
  const std::vector<float> frequencies(8, 1);
  for (const char* name : {"model.layers.0.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq"})
    tensors.push_back({name, "F32", {8}, std::as_bytes(std::span(frequencies))});
  write("model.safetensors", tensors);
  expect_same(ModelWeights::open(folder_.path().string(), config), *drawn);
}

TEST_F(WeightFiles, OfOtherShapesMayShowWhatTheConfigurationLacks) {
  ModelConfig config = tiny_config(ModelFamily::Llama);
  const auto drawn = ModelWeights::random(config, 3);
  ASSERT_TRUE(drawn);
  write("model.safetensors", drawn->tensors());
  config.num_key_value_heads = 4;
  config.assumed = {{"num_key_value_heads", "4", true}, {"rope_theta", "10000", false}};
  const auto weights = ModelWeights::open(folder_.path().string(), config);
  ASSERT_FALSE(weights);
  EXPECT_THAT(weights.error().message, HasSubstr("k_proj.weight' is [32, 64]; the configuration makes it [64, 64]"));
  EXPECT_THAT(weights.error().remedy,
              testing::EndsWith("the configuration has no 'num_key_value_heads', for which 4 is taken"));
  // What the missing key has no say in has another reason.
  config.num_key_value_heads = 2;
  config.assumed[0] = {"head_dim", "16", true};
  config.hidden_size = 128;
  const auto wrong = ModelWeights::open(folder_.path().string(), config);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("model.embed_tokens.weight' is [101, 64]"));
  EXPECT_THAT(wrong.error().remedy, testing::EndsWith("the weights of one model"));
}

TEST(WeightsInMemory, AreReadWhereTheyLie) {
  const ModelConfig config = tiny_config(ModelFamily::Llama);
  const auto drawn = ModelWeights::random(config, 3);
  ASSERT_TRUE(drawn);
  std::vector<SafeTensor> tensors = drawn->tensors();
  const auto same = ModelWeights::of(tensors, config);
  ASSERT_TRUE(same) << same.error().to_string();
  for (const WeightSpec& spec : weight_specs(config))
    EXPECT_EQ(same->at(spec.name)->values.data(), drawn->at(spec.name)->values.data()) << spec.name;

  const auto error = [&] {
    const auto made = ModelWeights::of(tensors, config);
    return made ? std::string("none") : made.error().message;
  };
  tensors[1].bytes = tensors[1].bytes.first(2);
  EXPECT_EQ(error(), "the given model: tensor 'model.layers.0.input_layernorm.weight' has 2 bytes");
  tensors[1].dtype = "F32";
  EXPECT_EQ(error(), "the given model: tensor 'model.layers.0.input_layernorm.weight' is F32");
  tensors.erase(tensors.begin() + 1);
  EXPECT_EQ(error(), "the given model is without model.layers.0.input_layernorm.weight");
}

TEST_F(WeightFiles, OddPlacesAreRefused) {
  const ModelConfig config = tiny_config(ModelFamily::Llama);
  const auto drawn = ModelWeights::random(config, 3);
  ASSERT_TRUE(drawn);
  auto bytes = safetensors_bytes(drawn->tensors());
  ASSERT_TRUE(bytes);
  uint64_t length = 0;
  std::memcpy(&length, bytes->data(), 8);
  bytes->insert(8 + length, " ");
  ++length;
  std::memcpy(bytes->data(), &length, 8);
  ASSERT_TRUE(write_file(path("model.safetensors"), *bytes, Sync::None));
  EXPECT_THAT(error_of(config), HasSubstr("begins at an odd place"));
}

}  // namespace
}  // namespace strata::megakernel
