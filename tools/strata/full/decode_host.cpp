#include "decode_host.h"

#include "megakernel/decode/decoder.h"

namespace strata::cli {

using namespace megakernel;

Result<std::vector<std::vector<int>>> decode_on_host(const ModelConfig& config, const ModelWeights& weights,
                                                     const std::vector<std::vector<int>>& prompts,
                                                     const GenerateOptions& options, int64_t capacity,
                                                     const DecodeSession::OnToken& on_token) {
  const DecodeOptions sizes{.batch = static_cast<int64_t>(prompts.size()), .capacity = capacity};
  STRATA_CHECK(check_generate(config, sizes.batch, prompts, options));
  STRATA_TRY(const auto decoder, Decoder::interpreted(config, weights, sizes));
  return decoder->generate(prompts, options, on_token);
}

}  // namespace strata::cli
