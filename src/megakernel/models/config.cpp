#include "megakernel/models/config.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/json_text.h"
#include "support/read_file.h"
#include "support/spelling.h"

namespace strata {

// Of the build: the texts of examples/models.
std::string_view qwen3_0_6b_config();
std::string_view qwen3_1_7b_config();
std::string_view qwen3_8b_config();
std::string_view llama_3_2_1b_config();
std::string_view llama_3_8b_config();

namespace megakernel {
namespace {

using Json = nlohmann::json;

/// Larger than any model's, and so small that products of three sizes fit 63 bits.
constexpr int64_t kMostSize = int64_t{1} << 20;

constexpr const char* kGiveTheirs = "give the config.json that the model came with";

/// The value of a key, or null where it is missing: transformers treats both alike.
const Json& value_of(const Json& object, const char* key) {
  static const Json missing;
  const auto found = object.find(key);
  return found == object.end() ? missing : *found;
}

/// "'key' is VALUE", with long values cut.
std::string shown(const char* key, const Json& value) { return fmt::format("'{}' is {}", key, shown_json(value)); }

/// `where`: the key of the object that lacks it; none: the configuration itself.
tl::unexpected<Error> missing(const char* key, const char* where = nullptr) {
  const std::string object = where == nullptr ? "the configuration" : fmt::format("'{}'", where);
  return with_remedy(invalid("{} has no '{}'", object, key), kGiveTheirs);
}

tl::unexpected<Error> only(const char* key, const Json& value, std::string_view supported) {
  return with_remedy(unsupported("{}", shown(key, value)), fmt::format("supported: {}", supported));
}

Result<int64_t> size(const Json& object, const char* key) {
  const Json& value = value_of(object, key);
  if (value.is_null()) return missing(key);
  if (!value.is_number_integer() || value.get<double>() < 1 || value.get<double>() > static_cast<double>(kMostSize))
    return with_remedy(invalid("{}", shown(key, value)), fmt::format("write an integer from 1 to {}", kMostSize));
  return value.get<int64_t>();
}

/// What is taken for a key that is missing.
template <class Value>
Value assume(ModelConfig& config, const char* key, Value value, bool in_shapes = false) {
  config.assumed.push_back({key, fmt::format("{}", value), in_shapes});
  return value;
}

/// Of the configuration itself, or of the object that is its key `where`.
Result<double> positive(const Json& object, const char* key, const char* where = nullptr) {
  const Json& value = value_of(object, key);
  if (value.is_null()) return missing(key, where);
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() <= 0) {
    const std::string inside = where == nullptr ? "" : fmt::format("in '{}', ", where);
    return with_remedy(invalid("{}{}", inside, shown(key, value)), "write a number above 0");
  }
  return value.get<double>();
}

Result<bool> flag(const Json& object, const char* key, bool otherwise) {
  const Json& value = value_of(object, key);
  if (value.is_null()) return otherwise;
  if (!value.is_boolean()) return with_remedy(invalid("{}", shown(key, value)), "write true or false");
  return value.get<bool>();
}

/// Error unless the key is missing or has the word that is supported.
Result<void> only_word(const Json& object, const char* key, std::string_view word) {
  const Json& value = value_of(object, key);
  if (value.is_null() || (value.is_string() && value.get_ref<const std::string&>() == word)) return {};
  return only(key, value, fmt::format("\"{}\"", word));
}

Result<void> only_false(const Json& object, const char* key) {
  STRATA_TRY(const bool value, flag(object, key, false));
  if (value) return only(key, true, "false");
  return {};
}

Result<void> check_what_is_not_supported(const Json& json, ModelFamily family) {
  const std::string_view architecture = family == ModelFamily::Qwen3 ? "Qwen3ForCausalLM" : "LlamaForCausalLM";
  const Json& architectures = value_of(json, "architectures");
  if (!architectures.is_null() && architectures != Json::array({architecture}))
    return only("architectures", architectures, fmt::format("[\"{}\"]", architecture));
  for (const char* key : {"attention_bias", "mlp_bias", "use_sliding_window"}) STRATA_CHECK(only_false(json, key));
  // Qwen3's window is in use only where use_sliding_window says so; the Llama family has none.
  const Json& window = value_of(json, "sliding_window");
  if (!window.is_null() && family == ModelFamily::Llama) return only("sliding_window", window, "null");
  const Json& layer_types = value_of(json, "layer_types");
  if (!layer_types.is_null()) {
    if (!layer_types.is_array())
      return with_remedy(invalid("{}", shown("layer_types", layer_types)), "write a list of words, or leave it out");
    for (const Json& type : layer_types)
      if (type != "full_attention") return only("layer_types", layer_types, "\"full_attention\" in all layers");
  }
  STRATA_CHECK(only_word(json, "hidden_act", "silu"));
  const Json& quantization = value_of(json, "quantization_config");
  if (!quantization.is_null()) return only("quantization_config", quantization, "none: weights in bfloat16");
  const Json& partial = value_of(json, "partial_rotary_factor");
  if (!partial.is_null() && partial != 1) return only("partial_rotary_factor", partial, "1");
  return {};
}

/// A number that a key says, and where: messages name both places of two that differ.
struct Said {
  double value;
  std::string place;
};

/// What rope_scaling or rope_parameters, an object, says.
struct RopeObject {
  std::optional<RopeScaling> scaling;  ///< none: angles are as in training
  std::optional<double> theta;
};

Result<RopeScaling> read_llama3(const Json& object, const char* where) {
  RopeScaling scaling;
  STRATA_TRY(scaling.factor, positive(object, "factor", where));
  STRATA_TRY(scaling.low_freq_factor, positive(object, "low_freq_factor", where));
  STRATA_TRY(scaling.high_freq_factor, positive(object, "high_freq_factor", where));
  STRATA_TRY(const double original, positive(object, "original_max_position_embeddings", where));
  if (original != std::floor(original) || original > 1e12)
    return with_remedy(invalid("in '{}', 'original_max_position_embeddings' is {}", where, original),
                       "write a number of positions");
  scaling.original_max_position_embeddings = static_cast<int64_t>(original);
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    return with_remedy(invalid("in '{}', 'high_freq_factor' is {}, and 'low_freq_factor' is {}", where,
                               scaling.high_freq_factor, scaling.low_freq_factor),
                       "write a high_freq_factor above the low_freq_factor");
  }
  return scaling;
}

Result<RopeObject> read_rope_object(const Json& object, const char* where) {
  if (!object.is_object())
    return with_remedy(invalid("{}", shown(where, object)), "write an object with a rope_type, or null");
  const Json& new_type = value_of(object, "rope_type");
  const Json& old_type = value_of(object, "type");
  const Json& type = new_type.is_null() ? old_type : new_type;
  if (type.is_null()) return with_remedy(invalid("'{}' has no 'rope_type'", where), "name it: default or llama3");
  if (!old_type.is_null() && old_type != type)
    return with_remedy(invalid("in '{}', {}, and {}", where, shown("rope_type", type), shown("type", old_type)),
                       "leave one of the two out");
  if (type != "default" && type != "llama3") return only("rope_type", type, "\"default\", \"llama3\"");
  const bool scaled = type == "llama3";
  constexpr std::array<std::string_view, 4> kScales{"factor", "low_freq_factor", "high_freq_factor",
                                                    "original_max_position_embeddings"};
  for (const auto& [key, value] : object.items()) {
    if (key == "rope_type" || key == "type" || key == "rope_theta" || value.is_null()) continue;
    if (key == "partial_rotary_factor" && value == 1) continue;
    if (scaled && std::find(kScales.begin(), kScales.end(), key) != kScales.end()) continue;
    return with_remedy(unsupported("'{}' has the key '{}'", where, key),
                       fmt::format("supported for this rope_type: rope_theta{}{}", scaled ? ", " : "",
                                   scaled ? fmt::format("{}", fmt::join(kScales, ", ")) : ""));
  }
  RopeObject read;
  if (!value_of(object, "rope_theta").is_null()) {
    STRATA_TRY(read.theta, positive(object, "rope_theta", where));
  }
  if (scaled) {
    STRATA_TRY(read.scaling, read_llama3(object, where));
  }
  return read;
}

/// Both forms of transformers, and what stands between them: a file has rope_theta beside rope_scaling, in it (as
/// transformers 5 reads old files), or in rope_parameters. What is said twice must be the same: readers differ in which
/// of the two they take.
Result<void> read_rope(const Json& json, ModelConfig& config) {
  std::vector<Said> thetas;
  if (!value_of(json, "rope_theta").is_null()) {
    STRATA_TRY(const double theta, positive(json, "rope_theta"));
    thetas.push_back({theta, "the configuration"});
  }
  std::vector<std::optional<RopeScaling>> scalings;
  for (const char* where : {"rope_scaling", "rope_parameters"}) {
    const Json& object = value_of(json, where);
    if (object.is_null()) continue;
    STRATA_TRY(const RopeObject read, read_rope_object(object, where));
    scalings.push_back(read.scaling);
    if (read.theta) thetas.push_back({*read.theta, fmt::format("'{}'", where)});
  }
  for (const Said& one : thetas) {
    if (one.value != thetas[0].value)
      return with_remedy(
          invalid("'rope_theta' is {} in {} and {} in {}", thetas[0].value, thetas[0].place, one.value, one.place),
          "leave the wrong one out");
  }
  if (scalings.size() == 2 && scalings[0] != scalings[1])
    return with_remedy(invalid("'rope_parameters' differs from 'rope_scaling'"), "leave one of the two out");
  if (!scalings.empty()) config.rope_scaling = scalings[0];
  config.rope_theta = thetas.empty() ? assume(config, "rope_theta", 10000.0) : thetas[0].value;
  // Some readers take it in place of the one in the object.
  const Json& original = value_of(json, "original_max_position_embeddings");
  if (config.rope_scaling && !original.is_null() && original != config.rope_scaling->original_max_position_embeddings)
    return with_remedy(
        invalid("{}, and {} in the object of its rotary angles", shown("original_max_position_embeddings", original),
                config.rope_scaling->original_max_position_embeddings),
        "leave the wrong one out");
  return {};
}

Result<std::vector<int64_t>> read_eos(const Json& json, int64_t vocab_size) {
  const Json& value = value_of(json, "eos_token_id");
  std::vector<int64_t> ids;
  if (value.is_null()) return ids;
  for (const Json& id : value.is_array() ? value : Json::array({value})) {
    if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() >= static_cast<double>(vocab_size))
      return with_remedy(invalid("{}", shown("eos_token_id", value)),
                         fmt::format("write a token, or a list of tokens, from 0 to {}", vocab_size - 1));
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

struct Preset {
  const char* name;
  std::string_view (*text)();
};
constexpr std::array<Preset, 5> kPresets{{{"qwen3-0.6b", &qwen3_0_6b_config},
                                          {"qwen3-1.7b", &qwen3_1_7b_config},
                                          {"qwen3-8b", &qwen3_8b_config},
                                          {"llama-3.2-1b", &llama_3_2_1b_config},
                                          {"llama-3-8b", &llama_3_8b_config}}};

}  // namespace

Result<ModelConfig> parse_config(std::string_view text) {
  const auto parsed = parse_json<Json>(text);
  if (!parsed) return with_remedy(invalid("the configuration:{}", parsed.error().message), kGiveTheirs);
  const Json& json = *parsed;
  if (!json.is_object()) return with_remedy(invalid("the configuration is no JSON object"), kGiveTheirs);
  ModelConfig config;
  const Json& type = value_of(json, "model_type");
  if (type.is_null()) return missing("model_type");
  if (type != "qwen3" && type != "llama") return only("model_type", type, "\"qwen3\", \"llama\"");
  config.family = type == "qwen3" ? ModelFamily::Qwen3 : ModelFamily::Llama;
  STRATA_CHECK(check_what_is_not_supported(json, config.family));
  STRATA_TRY(config.hidden_size, size(json, "hidden_size"));
  STRATA_TRY(config.num_hidden_layers, size(json, "num_hidden_layers"));
  const Json& layer_types = value_of(json, "layer_types");
  if (!layer_types.is_null() && static_cast<int64_t>(layer_types.size()) != config.num_hidden_layers)
    return with_remedy(invalid("'layer_types' has {} entries, and 'num_hidden_layers' is {}", layer_types.size(),
                               config.num_hidden_layers),
                       "write one for each layer, or leave it out");
  STRATA_TRY(config.num_attention_heads, size(json, "num_attention_heads"));
  // transformers takes 32 heads of keys and values, of 128 columns, for a Qwen3 that does not say, whatever else it
  // says.
  if (config.family == ModelFamily::Qwen3) {
    for (const auto& [key, otherwise] : {std::pair{"num_key_value_heads", 32}, std::pair{"head_dim", 128}}) {
      if (value_of(json, key).is_null())
        return with_remedy(invalid("the configuration of a qwen3 has no '{}'", key),
                           fmt::format("add it as the model was trained; transformers takes \"{}\": {} where it is "
                                       "missing",
                                       key, otherwise));
    }
  }
  const auto size_or = [&](const char* key, int64_t otherwise, bool in_shapes) -> Result<int64_t> {
    if (value_of(json, key).is_null()) return assume(config, key, otherwise, in_shapes);
    return size(json, key);
  };
  STRATA_TRY(config.num_key_value_heads, size_or("num_key_value_heads", config.num_attention_heads, true));
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    return with_remedy(invalid("'num_key_value_heads' is {}, which does not divide 'num_attention_heads', {}",
                               config.num_key_value_heads, config.num_attention_heads),
                       "write a divisor");
  }
  const bool whole = config.hidden_size % config.num_attention_heads == 0;
  if (!whole && value_of(json, "head_dim").is_null()) return missing("head_dim");
  STRATA_TRY(config.head_dim, size_or("head_dim", config.hidden_size / config.num_attention_heads, true));
  if (config.head_dim % 2 != 0)
    return with_remedy(invalid("'head_dim' is {}", config.head_dim), "rotary angles need an even number");
  STRATA_TRY(config.intermediate_size, size(json, "intermediate_size"));
  STRATA_TRY(config.vocab_size, size(json, "vocab_size"));
  STRATA_TRY(config.max_position_embeddings,
             size_or("max_position_embeddings", config.family == ModelFamily::Qwen3 ? 32768 : 2048, false));
  if (value_of(json, "rms_norm_eps").is_null()) {
    config.rms_norm_eps = assume(config, "rms_norm_eps", 1e-6);
  } else {
    STRATA_TRY(config.rms_norm_eps, positive(json, "rms_norm_eps"));
  }
  STRATA_CHECK(read_rope(json, config));
  STRATA_TRY(config.tie_word_embeddings, flag(json, "tie_word_embeddings", false));
  STRATA_TRY(config.eos_token_ids, read_eos(json, config.vocab_size));
  return config;
}

Result<ModelConfig> load_config(const std::string& path) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(path, ignored);
  const std::string file = folder ? (std::filesystem::path(path) / "config.json").string() : path;
  STRATA_TRY(const std::string text, read_file(file));
  auto config = parse_config(text);
  if (!config) return tl::unexpected(config.error().within(shown_path(file)));
  return config;
}

std::vector<std::string> notes_of(const ModelConfig& config) {
  std::vector<std::string> notes;
  for (const AssumedKey& one : config.assumed) {
    if (!one.in_shapes)
      notes.push_back(
          fmt::format("the configuration has no '{}'; {} is taken, as transformers does", one.key, one.value));
  }
  return notes;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

Result<ModelConfig> preset_config(std::string_view name) {
  for (const Preset& preset : kPresets)
    if (preset.name == name) return parse_config(preset.text());
  const std::vector<std::string> names = preset_names();
  return with_remedy(invalid("there is no built-in configuration '{}'{}", name, did_you_mean(name, names)),
                     fmt::format("built in are {}; others are files: give the path of a config.json or of its folder",
                                 fmt::join(nearest_first(name, names), ", ")));
}

}  // namespace megakernel
}  // namespace strata
