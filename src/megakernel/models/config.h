// What a decoder is: sizes and constants of a dense transformer of the Qwen3 or Llama-3 family, read from the
// config.json that Hugging Face publishes beside the weights.
//
// Notation of this folder: B sequences of a batch, C positions of a cache, V words of the vocabulary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"

namespace strata::megakernel {

enum class ModelFamily : uint8_t {
  Qwen3,  ///< queries and keys are normalised by head (model_type qwen3)
  Llama,  ///< they are not (model_type llama)
};

/// Rotary angles of contexts longer than those of training (rope_type llama3; Llama 3.1). rope.h has the equations.
struct RopeScaling {
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;
  bool operator==(const RopeScaling&) const = default;
};

/// A key that a config.json lacks, and what is taken for it, as transformers does.
struct AssumedKey {
  std::string key;
  std::string value;
  bool in_shapes = false;  ///< weights of a model with another value have other shapes
  bool operator==(const AssumedKey&) const = default;
};

/// Names are those of config.json. Queries have num_attention_heads · head_dim columns, which need not be hidden_size.
struct ModelConfig {
  ModelFamily family = ModelFamily::Llama;
  int64_t hidden_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;  ///< divides num_attention_heads
  int64_t head_dim = 0;             ///< even
  int64_t intermediate_size = 0;
  int64_t vocab_size = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 0;
  double rope_theta = 0;
  std::optional<RopeScaling> rope_scaling;
  /// Instead of these two, where a model's own table is known: radians a position of head_dim / 2 pairs. Empty: none.
  /// No config.json has it.
  std::vector<float> frequencies;
  bool tie_word_embeddings = false;  ///< the head's matrix is that of the embeddings
  std::vector<int64_t> eos_token_ids;
  std::vector<AssumedKey> assumed;
  bool operator==(const ModelConfig&) const = default;

  /// Query heads that share a head of keys and values.
  int64_t group() const { return num_attention_heads / num_key_value_heads; }
  int64_t query_columns() const { return num_attention_heads * head_dim; }
  int64_t key_columns() const { return num_key_value_heads * head_dim; }
};

/// Reads the text of a config.json. Both forms of transformers are understood: rope_theta and rope_scaling, or
/// rope_parameters. torch_dtype and dtype are not read: weights say themselves what they are. Defaults are those of
/// transformers 5 (`assumed`); sizes have none here, nor have a Qwen3's head_dim and num_key_value_heads: those of
/// transformers are one model's, whatever the other sizes. Errors name the key: InvalidInput where a value makes no
/// sense, Unsupported, with what is supported, where it asks for another model_type, biases, a sliding window, another
/// rope_type or activation, or quantisation.
Result<ModelConfig> parse_config(std::string_view text);

/// What a user should know: keys that the file lacks and that no weight would show to be wrong, a sentence each.
std::vector<std::string> notes_of(const ModelConfig& config);

/// Reads a config.json, or the one in a folder. Error (Environment) where it cannot be read.
Result<ModelConfig> load_config(const std::string& path);

/// Names of the configurations in examples/models, which are built in: "qwen3-0.6b" and others.
std::vector<std::string> preset_names();
/// Error (InvalidInput) that lists the names where `name` is none.
Result<ModelConfig> preset_config(std::string_view name);

}  // namespace strata::megakernel
