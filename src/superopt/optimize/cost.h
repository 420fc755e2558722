// The cost model that ranks candidates. It estimates each launch on its own: bytes from device memory and through
// L2, operations, how well blocks fill the multiprocessors, and what iterations and barriers cost. All rates
// are the target's (machine/rates.def).
#pragma once

#include <vector>

#include "ir/graph.h"
#include "machine/target.h"

namespace strata {

struct CostEstimate {
  int kernels = 0;           ///< launches
  int64_t device_bytes = 0;  ///< bytes that must cross between device memory and the chip: every operand of
                             ///< every kernel once, every result once
  double seconds = 0;

  CostEstimate& operator+=(const CostEstimate& other);
};

/// Bytes that memory moves for a tile of `bytes` that lies in runs of `run` bytes: it moves whole lines, and runs that
/// are no whole lines share them with other tiles. Not so where a run is all that the tensor has.
double line_bytes(int64_t bytes, int64_t run, bool whole_run);

/// Whether the emitters that keep values in registers can take a block graph, as far as the graph tells
/// (docs/codegen.md). In those of others every operator passes through shared memory, with barriers between: what takes
/// `seconds` in registers takes through_shared_memory(seconds).
bool stays_in_registers(const Graph& body);
double through_shared_memory(double seconds, const Target& target);

/// Whether an estimate is less than another, in steps of 2 %: smaller differences mean nothing.
bool cheaper(const CostEstimate& a, const CostEstimate& b);

/// The graph as it stands: every operator of the kernel graph is one launch.
CostEstimate estimate_cost(const Graph& graph, const Target& target);

/// One operator of a kernel graph. `views`: view_operations(graph), which whoever asks for many operators has once.
CostEstimate estimate_operation(const Graph& graph, const Operation& op, const Target& target,
                                const std::vector<bool>& views);
CostEstimate estimate_operation(const Graph& graph, const Operation& op, const Target& target);

/// No kernel graph of `kernels` launches that reads these inputs and writes these outputs is estimated below this.
double cost_lower_bound(const Graph& program, int kernels, const Target& target);

}  // namespace strata
