// What the host tells a decode step of its sequences, in device memory; it writes it between launches. Both sides have
// this text: the host compiles it, and it stands in an image's source.
#pragma once

namespace strata_device {

/// How a sequence's next token is chosen: models/sampling.h, SamplingOptions.
struct SequenceOptions {
  float inverse_temperature = 0;  ///< 0: argmax
  unsigned top_k = 0;             ///< 0: all
  unsigned share = 0;             ///< ⌊top_p · 2^24⌋
  unsigned seed[2] = {0, 0};      ///< low and high half
  int ended = 0;                  ///< it has made a stop token; the kernel sets it too
};

constexpr int kMostStopTokens = 16;

/// Tokens after which a sequence has ended. A launch ends when all have.
struct StopTokens {
  int count = 0;
  int tokens[kMostStopTokens] = {};
};

}  // namespace strata_device
