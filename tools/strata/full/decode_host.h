// Decoding without a GPU, for small models and as a reference.
#pragma once

#include <vector>

#include "megakernel/decode/decode_session.h"

namespace strata::cli {

/// What DecodeSession::generate does, by the interpreter, in float32. Errors: those of check_generate and of
/// ReferenceDecoder.
Result<std::vector<std::vector<int>>> decode_on_host(const megakernel::ModelConfig& config,
                                                     const megakernel::ModelWeights& weights,
                                                     const std::vector<std::vector<int>>& prompts,
                                                     const megakernel::GenerateOptions& options, int64_t capacity,
                                                     const megakernel::DecodeSession::OnToken& on_token);

}  // namespace strata::cli
