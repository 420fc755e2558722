// The cost model that ranks candidates: a lower-bound style estimate from bytes, operations, occupancy and launches.
#pragma once

#include "ir/graph.h"
#include "ir/target.h"

namespace strata {

struct CostEstimate {
  int kernels = 0;           ///< launches
  int64_t device_bytes = 0;  ///< bytes moved between device memory and the chip
  double seconds = 0;
};

/// The graph as it stands: every operator of the kernel graph is one launch.
CostEstimate estimate_cost(const Graph& graph, const Target& target);

}  // namespace strata
