// Models of test size: both families, with and without tied embeddings and scaled angles.
#pragma once

#include "megakernel/models/config.h"

namespace strata::megakernel {

inline ModelConfig tiny_config(ModelFamily family, bool tied = false) {
  ModelConfig config;
  config.family = family;
  config.hidden_size = 64;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 16;
  config.intermediate_size = 96;
  config.vocab_size = 101;
  config.max_position_embeddings = 256;
  config.rms_norm_eps = family == ModelFamily::Qwen3 ? 1e-6 : 1e-5;
  config.rope_theta = family == ModelFamily::Qwen3 ? 1e6 : 5e5;
  if (family == ModelFamily::Llama) config.rope_scaling = RopeScaling{8, 1, 4, 64};
  config.tie_word_embeddings = tied;
  return config;
}

}  // namespace strata::megakernel
