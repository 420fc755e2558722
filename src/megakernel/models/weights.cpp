#include "megakernel/models/weights.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>

#include "megakernel/models/bf16.h"
#include "support/hash.h"
#include "support/host_memory.h"
#include "support/json_text.h"
#include "support/parallel.h"
#include "support/read_file.h"

namespace strata::megakernel {
namespace {

using Json = nlohmann::json;

constexpr const char* kEmbeddings = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";
constexpr const char* kFrequencies = "rotary_emb.inv_freq";
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kFileName = "model.safetensors";

/// "a, b and 5 more".
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kMostNamed = 4;
  if (names.size() <= kMostNamed) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{} and {} more", fmt::join(names.begin(), names.begin() + kMostNamed, ", "),
                     names.size() - kMostNamed);
}

/// The file of each tensor, as an index says.
Result<std::map<std::string, std::string>> read_index(const std::string& path) {
  STRATA_TRY(const std::string text, read_file(path));
  const char* const remedy = "give the index that the model came with";
  const auto parsed = parse_json<Json>(text);
  if (!parsed) return with_remedy(invalid("{}:{}", path, parsed.error().message), remedy);
  const Json& json = *parsed;
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    return with_remedy(invalid("{}: no JSON object with a 'weight_map'", path), remedy);
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : json["weight_map"].items()) {
    if (!file.is_string()) return with_remedy(invalid("{}: the file of '{}' is no text", path, name), remedy);
    const auto& shard = file.get_ref<const std::string&>();
    // An index may not lead out of its folder.
    if (shard.empty() || shard == "." || shard == ".." || shard.find('/') != std::string::npos ||
        shard.find('\0') != std::string::npos) {
      return with_remedy(invalid("{}: '{}' lies in '{}'", path, name, shard), "name a file beside the index");
    }
    files[name] = shard;
  }
  return files;
}

/// The files of a model, and where they are named by an index, that every tensor lies where it says and nowhere else.
Result<std::vector<SafetensorsFile>> open_files(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path file = path;
  if (fs::is_directory(file, ignored)) {
    file /= kIndexName;
    if (!fs::exists(file, ignored)) file.replace_filename(kFileName);
    if (!fs::exists(file, ignored)) {
      return with_remedy(environment("'{}' has neither {} nor {}", path, kFileName, kIndexName),
                         "name the folder of a model in the safetensors format");
    }
  }
  std::vector<SafetensorsFile> files;
  if (file.extension() != ".json") {
    STRATA_TRY(SafetensorsFile whole, SafetensorsFile::open(file.string()));
    files.push_back(std::move(whole));
    return files;
  }
  STRATA_TRY(const auto index, read_index(file.string()));
  std::map<std::string, size_t> opened;
  for (const auto& [name, shard] : index) {
    const auto [found, is_new] = opened.emplace(shard, files.size());
    if (is_new) {
      STRATA_TRY(SafetensorsFile next, SafetensorsFile::open((file.parent_path() / shard).string()));
      files.push_back(std::move(next));
    }
    if (files[found->second].find(name) == nullptr)
      return with_remedy(invalid("{}: '{}' has no tensor '{}'", file.string(), shard, name), "get the files again");
  }
  for (const auto& [shard, number] : opened) {
    for (const auto& [name, tensor] : files[number].tensors()) {
      const auto found = index.find(name);
      if (found == index.end() || found->second != shard) {
        return with_remedy(invalid("{}: the tensor '{}' of '{}' is not in the weight_map", file.string(), name, shard),
                           "get the files again");
      }
    }
  }
  return files;
}

/// Whether a weight has another shape where the configuration has another value of an assumed key.
bool shape_depends(const WeightSpec& spec, const AssumedKey& key, const ModelConfig& config) {
  ModelConfig other = config;
  for (const auto& [name, size] :
       {std::pair{"head_dim", &other.head_dim}, std::pair{"num_key_value_heads", &other.num_key_value_heads}})
    if (key.key == name) *size += 1;
  const std::vector<WeightSpec> specs = weight_specs(other);
  const auto at = std::find_if(specs.begin(), specs.end(), [&](const auto& one) { return one.name == spec.name; });
  return at != specs.end() && at->shape != spec.shape;
}

/// What to do about a shape that is not the configuration's, whose missing keys may be why.
std::string remedy_of_shape(const WeightSpec& spec, const ModelConfig& config) {
  std::string text = "give the config.json and the weights of one model";
  std::vector<std::string> taken;
  for (const AssumedKey& one : config.assumed)
    if (one.in_shapes && shape_depends(spec, one, config))
      taken.push_back(fmt::format("'{}', for which {} is taken", one.key, one.value));
  if (!taken.empty()) text += fmt::format("; the configuration has no {}", fmt::join(taken, ", and no "));
  return text;
}

/// A tensor as the weight that `spec` says, or why it is not.
Result<WeightView> view_of(const SafeTensor& tensor, const WeightSpec& spec, const std::string& file,
                           const ModelConfig& config) {
  if (tensor.dtype != "BF16") {
    return with_remedy(unsupported("{}: tensor '{}' is {}", file, tensor.name, tensor.dtype),
                       "supported: BF16; save the model after model.to(torch.bfloat16)");
  }
  if (tensor.shape != spec.shape) {
    return with_remedy(invalid("{}: tensor '{}' is [{}]; the configuration makes it [{}]", file, tensor.name,
                               fmt::join(tensor.shape, ", "), fmt::join(spec.shape, ", ")),
                       remedy_of_shape(spec, config));
  }
  if (tensor.bytes.size() != static_cast<size_t>(spec.elements()) * sizeof(uint16_t))
    return invalid("{}: tensor '{}' has {} bytes", file, tensor.name, tensor.bytes.size());
  if (reinterpret_cast<uintptr_t>(tensor.bytes.data()) % alignof(uint16_t) != 0) {
    return with_remedy(unsupported("{}: tensor '{}' begins at an odd place", file, tensor.name),
                       "save it with a current version of safetensors");
  }
  return WeightView{spec.shape,
                    {reinterpret_cast<const uint16_t*>(tensor.bytes.data()), static_cast<size_t>(spec.elements())}};
}

}  // namespace

int64_t WeightSpec::elements() const {
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  return elements;
}

std::string layer_weight(int64_t layer, std::string_view name) {
  return fmt::format("model.layers.{}.{}", layer, name);
}

std::vector<WeightSpec> weight_specs(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  std::vector<WeightSpec> specs{{kEmbeddings, {config.vocab_size, hidden}}};
  for (int64_t n = 0; n < config.num_hidden_layers; ++n) {
    const auto add = [&](std::string_view name, std::vector<int64_t> shape) {
      specs.push_back({layer_weight(n, name), std::move(shape)});
    };
    add("input_layernorm.weight", {hidden});
    add("self_attn.q_proj.weight", {config.query_columns(), hidden});
    add("self_attn.k_proj.weight", {config.key_columns(), hidden});
    add("self_attn.v_proj.weight", {config.key_columns(), hidden});
    if (config.family == ModelFamily::Qwen3) {
      add("self_attn.q_norm.weight", {config.head_dim});
      add("self_attn.k_norm.weight", {config.head_dim});
    }
    add("self_attn.o_proj.weight", {hidden, config.query_columns()});
    add("post_attention_layernorm.weight", {hidden});
    add("mlp.gate_proj.weight", {config.intermediate_size, hidden});
    add("mlp.up_proj.weight", {config.intermediate_size, hidden});
    add("mlp.down_proj.weight", {hidden, config.intermediate_size});
  }
  specs.push_back({"model.norm.weight", {hidden}});
  if (!config.tie_word_embeddings) specs.push_back({kHead, {config.vocab_size, hidden}});
  return specs;
}

void draw_weight(const WeightSpec& spec, uint64_t seed, int64_t first, std::span<uint16_t> values) {
  constexpr double kNormDeviation = 1.0 / 16;
  const bool norm = spec.shape.size() == 1;
  const double deviation = norm ? kNormDeviation : 1 / std::sqrt(static_cast<double>(spec.shape.back()));
  // The sum's own deviation: four times the variance 65536² / 12.
  const auto scale = static_cast<float>(std::numbers::sqrt3 / 65536 * deviation);
  const uint64_t start = mix(seed ^ Hasher().add(spec.name).value()) + static_cast<uint64_t>(first);
  for_pieces(values.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const uint64_t word = mix(start + i);
      const auto part = [&](int n) { return static_cast<int32_t>(word >> (16 * n) & 0xffff); };
      const int32_t sum = part(0) + part(1) + part(2) + part(3) - 2 * 0xffff;
      const auto s = static_cast<float>(sum);
      values[i] = float_to_bf16(norm ? std::fma(s, scale, 1.0F) : s * scale);
    }
  });
}

Result<ModelWeights> ModelWeights::open(const std::string& path, const ModelConfig& config) {
  ModelWeights weights;
  STRATA_TRY(weights.files_, open_files(path));
  std::map<std::string, Given, std::less<>> given;
  for (const SafetensorsFile& file : weights.files_) {
    for (const auto& [name, tensor] : file.tensors()) given[name] = {&tensor, file.path()};
  }
  STRATA_CHECK(weights.take(given, config, fmt::format("'{}'", path)));
  return weights;
}

Result<ModelWeights> ModelWeights::of(const std::vector<SafeTensor>& tensors, const ModelConfig& config) {
  constexpr const char* kFrom = "the given model";
  ModelWeights weights;
  std::map<std::string, Given, std::less<>> given;
  for (const SafeTensor& tensor : tensors) given[tensor.name] = {&tensor, kFrom};
  STRATA_CHECK(weights.take(given, config, kFrom));
  return weights;
}

Result<void> ModelWeights::take_own_head(const std::map<std::string, Given, std::less<>>& given,
                                         const ModelConfig& config) {
  const auto head = given.find(kHead);
  if (head == given.end() || !given.contains(kEmbeddings)) return {};
  const WeightSpec spec{kHead, {config.vocab_size, config.hidden_size}};
  STRATA_TRY(const WeightView own, view_of(*head->second.tensor, spec, head->second.from, config));
  const WeightView& embeddings = views_.at(kEmbeddings);
  if (own.values.data() == embeddings.values.data()) return {};  // of a model in memory, which has both names for one
  if (std::memcmp(own.values.data(), embeddings.values.data(), own.values.size_bytes()) == 0) return {};
  specs_.push_back(spec);
  views_[kHead] = own;
  notes_.push_back(
      fmt::format("the configuration ties '{}' to the embeddings, and {} has another one, which is taken, "
                  "as transformers does; \"tie_word_embeddings\": false says so",
                  kHead, head->second.from));
  return {};
}

Result<void> ModelWeights::take(const std::map<std::string, Given, std::less<>>& given, const ModelConfig& config,
                                const std::string& where) {
  specs_ = weight_specs(config);
  std::vector<std::string> missing;
  std::set<std::string_view> expected;
  for (const WeightSpec& spec : specs_) {
    expected.insert(spec.name);
    auto found = given.find(spec.name);
    if (found == given.end() && spec.name == kEmbeddings && config.tie_word_embeddings) found = given.find(kHead);
    if (found == given.end()) {
      missing.push_back(spec.name);
      continue;
    }
    STRATA_TRY(views_[spec.name], view_of(*found->second.tensor, spec, found->second.from, config));
  }
  if (config.tie_word_embeddings) {
    expected.insert(kHead);
    STRATA_CHECK(take_own_head(given, config));
  }
  std::vector<std::string> unexpected;
  for (const auto& [name, one] : given)
    if (!expected.contains(name) && !name.ends_with(kFrequencies)) unexpected.push_back(name);
  if (!missing.empty() || !unexpected.empty()) {
    std::string text = missing.empty() ? "" : fmt::format("without {}", some_of(missing));
    if (!unexpected.empty()) text += fmt::format("{}with unexpected {}", text.empty() ? "" : ", ", some_of(unexpected));
    return with_remedy(invalid("{} is {}", where, text), "give the config.json and the weights of one model");
  }
  return {};
}

Result<ModelWeights> ModelWeights::random(const ModelConfig& config, uint64_t seed) {
  ModelWeights weights;
  weights.specs_ = weight_specs(config);
  double bytes = 0;
  for (const WeightSpec& spec : weights.specs_) bytes += sizeof(uint16_t) * static_cast<double>(spec.elements());
  STRATA_CHECK(check_host_memory(bytes, "random weights of the model"));
  for (const WeightSpec& spec : weights.specs_) {
    const auto elements = static_cast<size_t>(spec.elements());
    auto& values = weights.drawn_.emplace_back(std::make_unique_for_overwrite<uint16_t[]>(elements));
    draw_weight(spec, seed, 0, {values.get(), elements});
    weights.views_[spec.name] = {spec.shape, {values.get(), elements}};
  }
  return weights;
}

Result<WeightView> ModelWeights::at(std::string_view name) const {
  auto found = views_.find(name);
  if (found == views_.end() && name == kHead) found = views_.find(kEmbeddings);
  if (found != views_.end()) return found->second;
  return with_remedy(invalid("the model has no weight '{}'", name), "weight_specs lists the names");
}

std::vector<SafeTensor> ModelWeights::tensors() const {
  std::vector<SafeTensor> tensors;
  for (const WeightSpec& spec : specs_)
    tensors.push_back({spec.name, "BF16", spec.shape, std::as_bytes(views_.at(spec.name).values)});
  return tensors;
}

}  // namespace strata::megakernel
