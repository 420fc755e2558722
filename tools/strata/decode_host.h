// Decoding without a GPU, for small models and as a reference.
#pragma once

#include <vector>

#include "megakernel/models/weights.h"

namespace strata::cli {

/// Tokens of greedy decoding by the interpreter, in float32: `tokens` of them for each prompt. Errors: those of
/// ReferenceDecoder.
Result<std::vector<std::vector<int>>> decode_on_host(const megakernel::ModelConfig& config,
                                                     const megakernel::ModelWeights& weights,
                                                     const std::vector<std::vector<int>>& prompts, int64_t tokens,
                                                     int64_t capacity);

}  // namespace strata::cli
