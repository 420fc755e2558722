// The device text of attention's task, which is written by hand around its block function: what a step adds to a cache
// depends on positions and tokens, which no block graph has (tasks/device/strata_attention.h).
#pragma once

#include <string>
#include <vector>

#include "megakernel/models/config.h"
#include "megakernel/models/decode_operators.h"
#include "megakernel/tasks/task_code.h"

namespace strata::megakernel {

struct AttentionTask {
  const ModelConfig& config;
  const DecodeOperator& op;
  const TaskCode& code;
  int64_t capacity;               ///< positions of a cache
  int64_t rows;                   ///< positions of a sequence that a step takes (PromptRows::each)
  std::vector<std::string> outs;  ///< expressions for the results
};

/// Where the tile with this step's position lies in scratch memory, in bytes.
int64_t own_tile_place(const TaskCode& code);

/// Its arguments are queries, keys and values of this step, cosines, sines, the gains of queries and keys (any, where
/// the model has none), the cache, and the results.
TaskBody attention_body(const AttentionTask& task);

}  // namespace strata::megakernel
