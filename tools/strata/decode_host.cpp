#include "decode_host.h"

#include <algorithm>

#include "megakernel/models/reference_decode.h"
#include "megakernel/models/sampling.h"

namespace strata::cli {

using namespace megakernel;

Result<std::vector<std::vector<int>>> decode_on_host(const ModelConfig& config, const ModelWeights& weights,
                                                     const std::vector<std::vector<int>>& prompts, int64_t tokens,
                                                     int64_t capacity) {
  const auto batch = static_cast<int64_t>(prompts.size());
  STRATA_TRY(auto decoder, ReferenceDecoder<float>::create(config, weights, {.batch = batch, .capacity = capacity}));
  std::vector<std::vector<int>> made(prompts.size());
  std::vector<int64_t> next;
  for (const auto& prompt : prompts) next.push_back(prompt[0]);
  const auto is_short = [&](const auto& one) { return static_cast<int64_t>(one.size()) < tokens; };
  for (size_t fed = 0; std::any_of(made.begin(), made.end(), is_short); ++fed) {
    STRATA_TRY(const auto logits, decoder.step(next));
    const auto row = static_cast<size_t>(config.vocab_size);
    for (size_t s = 0; s < prompts.size(); ++s) {
      const auto token = argmax(std::span<const float>(logits.data.data() + s * row, row));
      const bool in_prompt = fed + 1 < prompts[s].size();
      next[s] = in_prompt ? prompts[s][fed + 1] : token;
      if (!in_prompt && is_short(made[s])) made[s].push_back(static_cast<int>(token));
    }
  }
  return made;
}

}  // namespace strata::cli
