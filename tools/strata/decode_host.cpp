#include "decode_host.h"

#include <algorithm>

#include "megakernel/models/reference_decode.h"
#include "megakernel/models/sampling.h"

namespace strata::cli {

using namespace megakernel;

Result<std::vector<std::vector<int>>> decode_on_host(const ModelConfig& config, const ModelWeights& weights,
                                                     const std::vector<std::vector<int>>& prompts,
                                                     const GenerateOptions& options, int64_t capacity) {
  const auto batch = static_cast<int64_t>(prompts.size());
  STRATA_CHECK(check_generate(config, batch, prompts, options));
  STRATA_TRY(auto decoder, ReferenceDecoder<float>::create(config, weights, {.batch = batch, .capacity = capacity}));
  std::vector<std::vector<int>> made(prompts.size());
  std::vector<int64_t> next;
  for (const auto& prompt : prompts) next.push_back(prompt[0]);
  const auto goes_on = [&](const std::vector<int>& one) {
    const std::vector<int>& stop = options.stop_tokens;
    return static_cast<int64_t>(one.size()) < options.tokens &&
           (one.empty() || std::find(stop.begin(), stop.end(), one.back()) == stop.end());
  };
  for (size_t fed = 0; std::any_of(made.begin(), made.end(), goes_on); ++fed) {
    STRATA_TRY(const auto logits, decoder.step(next));
    const auto row = static_cast<size_t>(config.vocab_size);
    for (size_t s = 0; s < prompts.size(); ++s) {
      const auto token = sample(std::span<const float>(logits.data.data() + s * row, row), sampling_of(options, s),
                                fed + 1, static_cast<uint32_t>(s));
      const bool in_prompt = fed + 1 < prompts[s].size();
      next[s] = in_prompt ? prompts[s][fed + 1] : token;
      if (!in_prompt && goes_on(made[s])) made[s].push_back(static_cast<int>(token));
    }
  }
  return made;
}

}  // namespace strata::cli
