// Places for tensors that live for a part of a program: dynamic storage allocation, which is NP-hard, solved to the end
// for the sizes that a block graph or a program has. docs/codegen.md says how.
#pragma once

#include <cstdint>
#include <vector>

namespace strata {

/// Memory that is needed from one depth of a program to another. Two tensors share bytes only where they share no
/// depth.
struct LiveTensor {
  int64_t bytes = 0;
  int64_t first = 0;      ///< depth
  int64_t last = 0;       ///< depth, inclusive
  int64_t alignment = 1;  ///< the offset is a multiple of this many bytes
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  ///< in bytes, in the order of the tensors
  int64_t peak = 0;              ///< bytes: where the highest tensor ends
  int64_t lower_bound = 0;       ///< bytes that live at one depth, at most: no plan has a lower peak
  bool optimal = false;          ///< no plan has a lower peak than this one
  int64_t nodes = 0;             ///< of the search: tensors that it placed
};

/// A plan of lowest peak; of a low peak, and not `optimal`, where the search ends at `node_limit`. Deterministic. Wants
/// bytes ≥ 0, first ≤ last and alignment ≥ 1.
MemoryPlan plan_memory(const std::vector<LiveTensor>& tensors, int64_t node_limit = 1'000'000);

}  // namespace strata
