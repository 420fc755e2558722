#include "megakernel/models/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/random.h"
#include "support/read_file.h"
#include "support/temporary_folder.h"
#include "support/write_file.h"
#include "test_paths.h"

namespace strata::megakernel {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

Json published(const char* name) {
  const auto text = read_file(std::string(STRATA_SOURCE_DIR) + "/examples/models/" + name + ".json");
  if (!text) ADD_FAILURE() << text.error().to_string();
  return Json::parse(*text);
}

ModelConfig config_of(const Json& json) {
  auto config = parse_config(json.dump());
  if (!config) ADD_FAILURE() << config.error().to_string();
  return config.value_or(ModelConfig{});
}

std::string error_of(const Json& json) {
  const auto config = parse_config(json.dump());
  return config ? "none" : config.error().to_string();
}

TEST(Config, PresetsHaveThePublishedSizes) {
  EXPECT_THAT(preset_names(),
              testing::ElementsAre("qwen3-0.6b", "qwen3-1.7b", "qwen3-8b", "llama-3.2-1b", "llama-3-8b"));
  for (const std::string& name : preset_names()) {
    const auto config = preset_config(name);
    ASSERT_TRUE(config) << config.error().to_string();
    EXPECT_EQ(*config, config_of(published(name.c_str()))) << name;
    EXPECT_EQ(config->num_key_value_heads, 8);
    EXPECT_EQ(config->family, name.starts_with("qwen3") ? ModelFamily::Qwen3 : ModelFamily::Llama);
    EXPECT_EQ(config->rope_scaling.has_value(), name == "llama-3.2-1b");
    EXPECT_EQ(config->rms_norm_eps, name.starts_with("qwen3") ? 1e-6 : 1e-5);
    EXPECT_EQ(config->rope_theta, name.starts_with("qwen3") ? 1e6 : 5e5);
  }
  const ModelConfig small = *preset_config("llama-3.2-1b");
  EXPECT_EQ(small.rope_scaling, (RopeScaling{32, 1, 4, 8192}));
  EXPECT_EQ(small.head_dim, 64);
  EXPECT_TRUE(small.tie_word_embeddings);
  const ModelConfig large = *preset_config("qwen3-8b");
  EXPECT_EQ(large.group(), 4);
  EXPECT_EQ(large.query_columns(), 4096);
  EXPECT_EQ(large.key_columns(), 1024);
  EXPECT_FALSE(large.tie_word_embeddings);
  EXPECT_EQ(preset_config("llama-3-8b")->head_dim, 128);  // not in the file: hidden_size / heads
  const auto unknown = preset_config("qwen3-0.6");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().to_string(),
              testing::AllOf(HasSubstr("did you mean 'qwen3-0.6b'"), HasSubstr("llama-3-8b")));
}

TEST(Config, FormsOfOldAndNewTransformersMeanTheSame) {
  for (const char* name : {"llama-3.2-1b", "llama-3-8b", "qwen3-1.7b"}) {
    const Json old = published(name);
    Json now = old;
    now["rope_parameters"] = old["rope_scaling"].is_null() ? Json{{"rope_type", "default"}} : old["rope_scaling"];
    now["rope_parameters"]["rope_theta"] = old["rope_theta"];
    now["dtype"] = old["torch_dtype"];
    Json both = now;
    for (const char* key : {"rope_scaling", "rope_theta", "torch_dtype"}) now.erase(key);
    EXPECT_EQ(config_of(now), config_of(old));
    EXPECT_EQ(config_of(both), config_of(old));
    both["rope_theta"] = 10000;
    EXPECT_THAT(error_of(both), HasSubstr("'rope_theta' is 10000 in the configuration and"));
  }
  Json older = published("llama-3.2-1b");
  older["rope_scaling"]["type"] = older["rope_scaling"]["rope_type"];
  older["rope_scaling"].erase("rope_type");
  EXPECT_EQ(config_of(older), config_of(published("llama-3.2-1b")));
}

/// transformers 5 takes the one in the object, 4 the one beside it: a model decodes alike in all or not at all.
TEST(Config, RopeThetaIsReadWhereverItStands) {
  const ModelConfig expected = config_of(published("llama-3.2-1b"));
  for (const char* object : {"rope_scaling", "rope_parameters"}) {
    Json json = published("llama-3.2-1b");
    const Json scaling = json["rope_scaling"];
    json.erase("rope_scaling");
    json[object] = scaling;
    json[object]["rope_theta"] = json["rope_theta"];
    EXPECT_EQ(config_of(json), expected);
    Json inside = json;
    inside.erase("rope_theta");
    EXPECT_EQ(config_of(inside), expected);
    EXPECT_EQ(config_of(inside).rope_theta, 500000);
    inside["rope_theta"] = nullptr;
    EXPECT_EQ(config_of(inside), expected);
    json["rope_theta"] = 10000;
    EXPECT_THAT(error_of(json),
                HasSubstr(fmt::format("'rope_theta' is 10000 in the configuration and 500000 in '{}'", object)));
    inside[object]["rope_theta"] = "big";
    EXPECT_THAT(error_of(inside), HasSubstr(fmt::format("in '{}', 'rope_theta' is \"big\"", object)));
  }
  Json unscaled = published("qwen3-0.6b");
  unscaled["rope_scaling"] = {{"rope_type", "default"}, {"rope_theta", 5e6}};
  EXPECT_THAT(error_of(unscaled), HasSubstr("'rope_theta' is 1000000 in the configuration and 5000000 in"));
  unscaled.erase("rope_theta");
  EXPECT_EQ(config_of(unscaled).rope_theta, 5e6);
  unscaled["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  EXPECT_THAT(error_of(unscaled), HasSubstr("5000000 in 'rope_scaling' and 1000000 in 'rope_parameters'"));
}

/// What nested objects say twice, or what would change the angles and is not read, is refused; null says nothing.
TEST(Config, ObjectsOfRotaryAnglesHaveNoUnreadKeys) {
  const Json base = published("llama-3.2-1b");
  const auto with = [&](const char* key, Json value) {
    Json json = base;
    json["rope_scaling"][key] = std::move(value);
    return error_of(json);
  };
  EXPECT_THAT(with("type", "default"), HasSubstr("in 'rope_scaling', 'rope_type' is \"llama3\", and 'type' is"));
  EXPECT_EQ(with("type", "llama3"), "none");
  EXPECT_THAT(with("partial_rotary_factor", 0.5), HasSubstr("has the key 'partial_rotary_factor'"));
  EXPECT_EQ(with("partial_rotary_factor", 1), "none");
  EXPECT_EQ(with("partial_rotary_factor", nullptr), "none");
  EXPECT_THAT(with("mscale", 1), HasSubstr("has the key 'mscale'"));
  EXPECT_THAT(with("factor", 0), HasSubstr("in 'rope_scaling', 'factor' is 0"));
  EXPECT_THAT(with("factor", nullptr), HasSubstr("'rope_scaling' has no 'factor'"));
  Json beside = base;
  beside["original_max_position_embeddings"] = 4096;
  EXPECT_THAT(error_of(beside), HasSubstr("'original_max_position_embeddings' is 4096, and 8192"));
  beside["original_max_position_embeddings"] = 8192;
  EXPECT_EQ(error_of(beside), "none");
  Json differs = base;
  differs["rope_parameters"] = base["rope_scaling"];
  EXPECT_EQ(error_of(differs), "none");
  differs["rope_parameters"]["factor"] = 8;
  EXPECT_THAT(error_of(differs), HasSubstr("'rope_parameters' differs from 'rope_scaling'"));
  Json of_layers = published("qwen3-0.6b");
  of_layers["rope_parameters"] = {{"full_attention", {{"rope_type", "default"}}}};
  EXPECT_THAT(error_of(of_layers), HasSubstr("'rope_parameters' has no 'rope_type'"));
}

TEST(Config, LayerTypesAreAsManyAsLayers) {
  Json json = published("qwen3-0.6b");
  json["layer_types"] = std::vector<std::string>(28, "full_attention");
  EXPECT_EQ(config_of(json), config_of(published("qwen3-0.6b")));
  json["layer_types"].push_back("full_attention");
  EXPECT_THAT(error_of(json), HasSubstr("'layer_types' has 29 entries, and 'num_hidden_layers' is 28"));
  json["layer_types"] = Json::array();
  EXPECT_THAT(error_of(json), HasSubstr("'layer_types' has 0 entries"));
}

TEST(Config, MissingKeysHaveTheDefaultsOfTransformers) {
  Json json = published("llama-3-8b");
  EXPECT_TRUE(notes_of(config_of(json)).empty()) << "the shapes of weights show head_dim";
  for (const char* key : {"num_key_value_heads", "tie_word_embeddings", "eos_token_id", "attention_bias", "torch_dtype",
                          "hidden_act", "architectures", "rope_scaling"})
    json.erase(key);
  const ModelConfig config = config_of(json);
  EXPECT_EQ(config.num_key_value_heads, 32);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_TRUE(config.eos_token_ids.empty());
  for (const char* key :
       {"model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"}) {
    Json without = json;
    without.erase(key);
    EXPECT_THAT(error_of(without), HasSubstr(fmt::format("has no '{}'", key)));
  }
}

/// As transformers 5 has them, in both forms of the file, and told where no weight would show them to be wrong.
TEST(Config, OldFilesLackWhatHadOneValue) {
  for (const char* name : {"llama-3-8b", "qwen3-8b"}) {
    Json json = published(name);
    for (const char* key : {"rope_theta", "rms_norm_eps", "max_position_embeddings"}) json.erase(key);
    Json null = json;
    null["rope_theta"] = nullptr;
    Json now = json;
    now["rope_parameters"] = {{"rope_type", "default"}};
    for (const Json& one : {json, null, now}) {
      const ModelConfig config = config_of(one);
      EXPECT_EQ(config.rope_theta, 10000);
      EXPECT_EQ(config.rms_norm_eps, 1e-6);
      EXPECT_EQ(config.max_position_embeddings, config.family == ModelFamily::Qwen3 ? 32768 : 2048);
      EXPECT_THAT(notes_of(config),
                  testing::ElementsAre(HasSubstr("no 'max_position_embeddings'"), HasSubstr("no 'rms_norm_eps'; 1e-06"),
                                       "the configuration has no 'rope_theta'; 10000 is taken, as transformers does"));
    }
  }
}

TEST(Config, WeightsSayTheirTypeThemselves) {
  for (const char* key : {"torch_dtype", "dtype"}) {
    for (const char* type : {"float16", "float32", "bfloat16"}) {
      Json json = published("llama-3-8b");
      json[key] = type;
      EXPECT_EQ(config_of(json), config_of(published("llama-3-8b")));
    }
  }
}

/// Qwen3's defaults in transformers, 128 and 32, do not depend on its other sizes.
TEST(Config, AQwen3SaysItsHeads) {
  for (const auto& [key, added] :
       {std::pair{"head_dim", "\"head_dim\": 128"}, std::pair{"num_key_value_heads", "\"num_key_value_heads\": 32"}}) {
    Json json = published("qwen3-0.6b");
    json[key] = nullptr;
    EXPECT_THAT(error_of(json), testing::AllOf(HasSubstr(fmt::format("a qwen3 has no '{}'", key)), HasSubstr(added)));
    json.erase(key);
    EXPECT_THAT(error_of(json), testing::AllOf(HasSubstr(fmt::format("a qwen3 has no '{}'", key)), HasSubstr(added)));
    Json llama = published("llama-3.2-1b");
    llama.erase(key);
    EXPECT_EQ(error_of(llama), "none");
  }
}

TEST(Config, TextIsStrictJsonOfAFewLevels) {
  const auto message = [](const std::string& text) {
    const auto config = parse_config(text);
    if (config) return std::string("none");
    EXPECT_EQ(config.error().code, ErrorCode::InvalidInput);
    return config.error().message;
  };
  EXPECT_EQ(message("{\"rope_theta\": 1e999}"), "the configuration:1:16: the number 1e999 is too large");
  EXPECT_EQ(message("{\"head_dim\": 64,\n \"head_dim\": 128}"),
            "the configuration:2:11: the object has the key \"head_dim\" twice");
  EXPECT_EQ(message("{\"head_dim\": " + std::string(100000, '[')), "the configuration:1:45: nested more than 32 deep");
  EXPECT_EQ(message("{"), "the configuration:1:2: this is no JSON");
}

TEST(Config, EndsOfTextAreANumberOrAList) {
  Json json = published("llama-3.2-1b");
  EXPECT_THAT(config_of(json).eos_token_ids, testing::ElementsAre(128001));
  json["eos_token_id"] = {128001, 128008, 128009};
  EXPECT_THAT(config_of(json).eos_token_ids, testing::ElementsAre(128001, 128008, 128009));
  for (const Json& wrong : {Json(128256), Json(-1), Json("x"), Json({1, nullptr}), Json(1.5)}) {
    json["eos_token_id"] = wrong;
    EXPECT_THAT(error_of(json), HasSubstr("'eos_token_id'"));
  }
}

TEST(Config, WhatIsNotSupportedIsNamedWithWhatIs) {
  struct Case {
    const char* base;
    const char* key;
    Json value;
    const char* supported;
  };
  const Case cases[] = {
      {"qwen3-8b", "model_type", "qwen3_moe", "\"qwen3\", \"llama\""},
      {"qwen3-8b", "architectures", {"Qwen3ForSequenceClassification"}, "Qwen3ForCausalLM"},
      {"qwen3-8b", "use_sliding_window", true, "false"},
      {"llama-3-8b", "sliding_window", 4096, "null"},
      {"qwen3-8b", "layer_types", {"full_attention", "sliding_attention"}, "full_attention"},
      {"qwen3-8b", "attention_bias", true, "false"},
      {"llama-3.2-1b", "mlp_bias", true, "false"},
      {"llama-3-8b", "hidden_act", "gelu", "silu"},
      {"llama-3-8b", "quantization_config", {{"quant_method", "fp8"}}, "bfloat16"},
      {"llama-3-8b", "partial_rotary_factor", 0.5, "1"},
      {"llama-3-8b", "rope_type", "yarn", "\"llama3\""},
  };
  for (const Case& c : cases) {
    Json json = published(c.base);
    if (std::string_view(c.key) == "rope_type") {
      json["rope_scaling"] = {{"rope_type", c.value}, {"factor", 4.0}};
    } else {
      json[c.key] = c.value;
    }
    const auto config = parse_config(json.dump());
    ASSERT_FALSE(config) << c.key;
    EXPECT_EQ(config.error().code, ErrorCode::Unsupported);
    EXPECT_THAT(config.error().message, HasSubstr(fmt::format("'{}'", c.key)));
    EXPECT_THAT(config.error().remedy, HasSubstr(c.supported));
  }
  Json json = published("qwen3-8b");
  json["sliding_window"] = 4096;  // use_sliding_window is false
  EXPECT_EQ(config_of(json), config_of(published("qwen3-8b")));
  json = published("llama-3.2-1b");
  json["rope_scaling"]["attention_factor"] = 2;
  EXPECT_THAT(error_of(json), HasSubstr("'rope_scaling' has the key 'attention_factor'"));
}

TEST(Config, WhatMakesNoSenseIsNamed) {
  const auto with = [](const char* key, Json value) {
    Json json = published("llama-3.2-1b");
    json[key] = std::move(value);
    return error_of(json);
  };
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "head_dim", "intermediate_size",
                          "vocab_size", "max_position_embeddings"}) {
    for (const Json& wrong : {Json(0), Json(-4), Json(1.5), Json("8"), Json(int64_t{1} << 60), Json::array()})
      EXPECT_THAT(with(key, wrong), HasSubstr(fmt::format("'{}' is {}", key, wrong.dump())));
  }
  EXPECT_THAT(with("num_key_value_heads", 5), HasSubstr("does not divide"));
  EXPECT_THAT(with("head_dim", 63), HasSubstr("even"));
  EXPECT_THAT(with("rms_norm_eps", -1), HasSubstr("'rms_norm_eps' is -1"));
  EXPECT_THAT(with("rope_theta", "big"), HasSubstr("'rope_theta'"));
  EXPECT_THAT(with("tie_word_embeddings", 1), HasSubstr("true or false"));
  EXPECT_THAT(with("rope_scaling", 8), HasSubstr("'rope_scaling' is 8"));
  EXPECT_THAT(with("rope_scaling", {{"factor", 8}}), HasSubstr("no 'rope_type'"));
  EXPECT_THAT(with("rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}}),
              HasSubstr("'rope_scaling' has no 'low_freq_factor'"));
  Json json = published("llama-3.2-1b");
  json["rope_scaling"]["high_freq_factor"] = 1;
  EXPECT_THAT(error_of(json), HasSubstr("'high_freq_factor' is 1"));
  EXPECT_FALSE(parse_config("[]"));
  EXPECT_FALSE(parse_config("{"));
}

TEST(Config, IsReadFromAFolderOrAFile) {
  const TemporaryFolder folder("strata-config");
  const std::string path = (folder.path() / "config.json").string();
  ASSERT_TRUE(write_file(path, published("qwen3-0.6b").dump(), Sync::None));
  for (const std::string& given : {path, folder.path().string()}) {
    const auto config = load_config(given);
    ASSERT_TRUE(config) << config.error().to_string();
    EXPECT_EQ(*config, *preset_config("qwen3-0.6b"));
  }
  ASSERT_TRUE(write_file(path, "{}", Sync::None));
  EXPECT_THAT(load_config(path).error().message, testing::StartsWith(path));
  EXPECT_EQ(load_config("/nowhere").error().code, ErrorCode::Environment);
}

TEST(Config, ChangedBytesAreAnErrorOrAConfiguration) {
  Random random(1);
  const std::string text = published("llama-3.2-1b").dump();
  int accepted = 0;
  for (int test = 0; test < 3000; ++test) {
    std::string changed = text;
    for (uint64_t n = 1 + random.below(3); n > 0; --n)
      changed[random.below(changed.size())] = static_cast<char>(random.below(256));
    const auto config = parse_config(changed);
    if (!config) continue;
    ++accepted;
    EXPECT_EQ(config->num_attention_heads % config->num_key_value_heads, 0);
    EXPECT_EQ(config->head_dim % 2, 0);
    EXPECT_GT(config->hidden_size, 0);
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace strata::megakernel
