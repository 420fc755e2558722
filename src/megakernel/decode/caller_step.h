// A step of a session whose keys, values and logits lie in memory of its caller, laid out as frameworks have them: what
// makes a decoder the implementation of a graph of torch (docs/decoding.md, Steps of a caller). The session keeps its
// own caches, in tiles. Rows of the caller's are copied into them when the caller says so, and each step's row goes to
// the caller.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "megakernel/decode/attention_body.h"

namespace strata::megakernel {

/// Keys and values of a layer: bfloat16 [batch, num_key_value_heads, positions, head_dim] each, dense. Addresses are
/// those of the session's device; the host's for an interpreter.
struct CallerCache {
  uint64_t keys = 0;
  uint64_t values = 0;
};

struct CallerStep {
  std::vector<int> tokens;          ///< of each sequence
  int64_t position = 0;             ///< of them all
  std::vector<CallerCache> caches;  ///< by layer
  int64_t positions = 0;            ///< of each cache
  /// Rows before `position` come from the caches. Else they are those of this session's steps before.
  bool takes_caches = true;
  uint64_t logits = 0;  ///< bfloat16 [batch, vocab_size]
};

/// Errors (InvalidInput): as many tokens as sequences, all of the vocabulary; a cache for each layer; the position lies
/// in the caches and among the model's.
Result<void> check_caller_step(const ModelConfig& config, int64_t batch, int64_t capacity, const CallerStep& step);

// ---- Kernels of an image, which DecodeTarget::pack launches

inline constexpr const char* kCallerRowsKernel = "caller_rows_kernel";      ///< (CallerRows, CallerLayer[layers])
inline constexpr const char* kCallerLogitsKernel = "caller_logits_kernel";  ///< (CallerRows, the logits' words)
inline constexpr int64_t kCallerRowsOfBlock = 16;      ///< kCallerRows of tasks/device/strata_caller_rows.h
inline constexpr int64_t kCallerLogitsOfBlock = 1024;  ///< four for each thread

/// Their text; `vocabulary` is that of the image's sizes.
std::string caller_kernels(const AttentionTask& attention, int64_t vocabulary);

}  // namespace strata::megakernel
