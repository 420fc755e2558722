// Where a block graph's tensors lie in shared memory, for the emitter that keeps all of them there.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"

namespace strata {

struct BlockMemory {
  /// Depth of each operator: between two depths is a barrier. Those after the loop follow those of the loop.
  std::vector<int> depths;
  std::vector<int64_t> tensors;  ///< offset in bytes, by tensor; −1: not in shared memory
  /// Of accumulators that rescale: offset of each of their three arrays (greatest value; factors before and now), by
  /// operator; empty for others.
  std::vector<std::vector<int64_t>> states;
  int64_t bytes = 0;
  int64_t lower_bound = 0;  ///< that live at one depth, at most
  bool optimal = false;     ///< no plan takes fewer bytes
};

/// A plan of fewest bytes (support/memory_plan.h; Mirage, OSDI'25, section 6: memory planning). What must survive the
/// loop's iterations lives through all of its depths. With `share` off each tensor has a place of its own.
BlockMemory plan_block_memory(const Graph& body, bool share);

}  // namespace strata
