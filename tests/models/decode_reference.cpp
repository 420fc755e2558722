// What decode_test.py drives: decoders of src/megakernel/models, with their results as text.
//
//     decode_reference draw CONFIG SEED FILE                        random weights to a safetensors file
//     decode_reference decode CONFIG WEIGHTS f32|f64 TOKENS         logits; TOKENS is JSON, by step, then by sequence
//
// decode prints the logits as JSON, by step, sequence and word.
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "megakernel/models/reference_decode.h"

namespace strata::megakernel {
namespace {

using Json = nlohmann::json;

Result<void> draw(const ModelConfig& config, const std::string& seed, const std::string& path) {
  STRATA_TRY(const ModelWeights weights, ModelWeights::random(config, std::strtoull(seed.c_str(), nullptr, 10)));
  return write_safetensors(path, weights.tensors(), {{"format", "pt"}});
}

template <class T>
Result<void> decode(const ModelConfig& config, const std::string& path, const std::string& text) {
  STRATA_TRY(const ModelWeights weights, ModelWeights::open(path, config));
  const auto steps = Json::parse(text).get<std::vector<std::vector<int64_t>>>();
  ReferenceOptions options;
  options.batch = static_cast<int64_t>(steps.at(0).size());
  options.capacity = static_cast<int64_t>(steps.size()) + 3;  // some positions are never seen
  STRATA_TRY(auto decoder, ReferenceDecoder<T>::create(config, weights, options));
  Json result = Json::array();
  for (const std::vector<int64_t>& tokens : steps) {
    STRATA_TRY(const Tensor<T> logits, decoder.step(tokens));
    Json& rows = result.emplace_back(Json::array());
    for (int64_t b = 0; b < options.batch; ++b) {
      const auto row = logits.data.begin() + b * config.vocab_size;
      rows.emplace_back(std::vector<double>(row, row + config.vocab_size));
    }
  }
  fmt::print("{}\n", result.dump());
  return {};
}

Result<void> run(const std::vector<std::string>& arguments) {
  if (arguments.size() < 4) return invalid("too few arguments");
  STRATA_TRY(const ModelConfig config, load_config(arguments[1]));
  if (arguments[0] == "draw") return draw(config, arguments[2], arguments[3]);
  if (arguments.size() < 5) return invalid("too few arguments");
  return arguments[3] == "f64" ? decode<double>(config, arguments[2], arguments[4])
                               : decode<float>(config, arguments[2], arguments[4]);
}

}  // namespace
}  // namespace strata::megakernel

int main(int argc, char** argv) {
  const auto done = strata::megakernel::run({argv + 1, argv + argc});
  if (!done) std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return done ? 0 : 1;
}
