// The weights of a decoder by their Hugging Face names, in bfloat16: mapped from safetensors, or drawn by a seed.
//
//     model.embed_tokens.weight                               [vocab, hidden]
//     model.layers.N.input_layernorm.weight                   [hidden]
//     model.layers.N.self_attn.{q,k,v}_proj.weight            [heads or key-value heads · head_dim, hidden]
//     model.layers.N.self_attn.{q,k}_norm.weight              [head_dim], Qwen3 only
//     model.layers.N.self_attn.o_proj.weight                  [hidden, heads · head_dim]
//     model.layers.N.post_attention_layernorm.weight          [hidden]
//     model.layers.N.mlp.{gate,up}_proj.weight                [intermediate, hidden]
//     model.layers.N.mlp.down_proj.weight                     [hidden, intermediate]
//     model.norm.weight                                       [hidden]
//     lm_head.weight                                          [vocab, hidden], where it is not that of the embeddings
//
// Matrices are [out, in], row-major.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megakernel/models/config.h"
#include "megakernel/models/safetensors.h"

namespace strata::megakernel {

/// Name and shape of a weight.
struct WeightSpec {
  std::string name;
  std::vector<int64_t> shape;
  bool operator==(const WeightSpec&) const = default;

  int64_t elements() const;
};

/// All weights of a model, in the order in which a step reads them.
std::vector<WeightSpec> weight_specs(const ModelConfig& config);

/// "model.layers.3.self_attn.q_proj.weight" of 3 and "self_attn.q_proj.weight".
std::string layer_weight(int64_t layer, std::string_view name);

/// A weight; the ModelWeights that it came from own the memory.
struct WeightView {
  std::vector<int64_t> shape;
  std::span<const uint16_t> values;  ///< bfloat16, row-major
};

/// Elements [first, first + values.size()) of a random weight. Each depends on seed, name and its index alone, so that
/// tensors can be drawn apart, in pieces and on any machine, with the same bits. With the index i and
///
///     word = mix(mix(seed ^ hash of the name) + i)        support/hash.h; the hash is Hasher().add(name)
///     s    = the sum of the four 16-bit parts of word, less 2 · 65535
///
/// a matrix has s · float32(√3 / (65536 · √in)): a sum of four uniform numbers, nearly normal, with deviation 1/√in. A
/// norm has 1 + s · float32(√3 / (65536 · 16)), rounded once (fma). Both in float32, then rounded to bfloat16.
void draw_weight(const WeightSpec& spec, uint64_t seed, int64_t first, std::span<uint16_t> values);

/// All weights of a model.
class ModelWeights {
 public:
  /// `path` is a .safetensors file, a model.safetensors.index.json, or a folder with either (the index first).
  /// Environment where a file cannot be read; InvalidInput, with names, where tensors are missing, unexpected or of
  /// another shape than the configuration says, or where the index names what its files do not have; Unsupported where
  /// a tensor is not BF16 or not aligned to 2 bytes. As transformers 5 does: a tied model whose lm_head.weight differs
  /// from the embeddings has it as a head of its own (`notes`), one with an lm_head.weight alone has it as embeddings,
  /// and rotary frequencies, which old files have (rotary_emb.inv_freq), are not read.
  static Result<ModelWeights> open(const std::string& path, const ModelConfig& config);

  /// Of tensors in memory, which must outlive it. Errors as those of open.
  static Result<ModelWeights> of(const std::vector<SafeTensor>& tensors, const ModelConfig& config);

  /// As draw_weight says, on all cores. Error (Environment) where they do not fit the memory.
  static Result<ModelWeights> random(const ModelConfig& config, uint64_t seed);

  /// By name; "lm_head.weight" of a model that has none of its own is that of the embeddings. Error (InvalidInput)
  /// where the model has no such weight.
  Result<WeightView> at(std::string_view name) const;

  /// What a user should know, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

  /// All of weight_specs, and a tied model's own head where it has one, as tensors for write_safetensors.
  std::vector<SafeTensor> tensors() const;

 private:
  /// A tensor, and the file it is of, or another word for where it comes from.
  struct Given {
    const SafeTensor* tensor;
    std::string from;
  };

  ModelWeights() = default;
  /// Views of all that the configuration asks for; `where` is for errors.
  Result<void> take(const std::map<std::string, Given, std::less<>>& given, const ModelConfig& config,
                    const std::string& where);
  /// Of a tied model, after its embeddings.
  Result<void> take_own_head(const std::map<std::string, Given, std::less<>>& given, const ModelConfig& config);

  std::vector<SafetensorsFile> files_;
  std::vector<std::unique_ptr<uint16_t[]>> drawn_;
  std::vector<WeightSpec> specs_;
  std::map<std::string, WeightView, std::less<>> views_;
  std::vector<std::string> notes_;
};

}  // namespace strata::megakernel
