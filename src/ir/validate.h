// Legality of µGraphs: Definition 2.1 of Mirage. The builder has checked (1), operator specifications, when each
// operator was added; here are (2) memory and (3) paths.
#pragma once

#include <functional>

#include "ir/graph.h"
#include "machine/target.h"

namespace strata {

/// Error, naming operator, tensor and place, where
///   - a tensor is computed and not used,
///   - the tensors of a block do not fit a multiprocessor (block_bytes), those of the program do not fit device memory,
///     or a thread graph does not fit registers,
///   - a path from an input of a block graph to an output does not pass exactly one in_iter, exactly one accum where
///     there is a loop (none where there is none) and exactly one out_saver; or a thread graph's likewise.
Result<void> validate(const Graph& graph, const Target& target);

/// The last of these alone, which no target decides: whoever executes a graph relies on it.
Result<void> validate_paths(const Graph& graph);

/// What a block needs, in whatever order its operators run and whether its values lie in registers or in shared memory.
/// The paper counts every tensor of the block in shared memory; what stays in registers need not be there. Products
/// that are added up count beside their accumulators, though tensor cores add in place.
struct BlockBytes {
  int64_t tiles = 0;     ///< of its inputs, which come to shared memory
  int64_t computed = 0;  ///< at the operator that needs the most: its operands and result, and all accumulators

  /// Whether a multiprocessor has room for it.
  bool fits(const Target& target) const;
  /// Whether it has where all that is computed is in registers.
  bool fits_registers(const Target& target) const;
};
BlockBytes block_bytes(const Graph& block_graph);
/// The same if the tensors had other types: what a search asks before it builds the graph.
BlockBytes block_bytes(const Graph& block_graph, const std::function<const TensorType&(TensorId)>& type);

/// Bytes of shared memory of a block graph when every block tensor has a place of its own: tiles as they lie
/// in device memory, computed tensors in the precision that they are computed in (f32, or f64 for f64).
int64_t shared_memory_bytes(const Graph& block_graph);

/// The same if the tensors had other types: what a search asks before it builds the graph.
int64_t shared_memory_bytes(const Graph& block_graph, const std::function<const TensorType&(TensorId)>& type);

/// Bytes of one block tensor in shared memory, as above.
int64_t shared_memory_bytes(const Graph& block_graph, TensorId id);

/// What an accumulator keeps beside its result: accum_rescale has kAccumulatorStates tensors of this many bytes (the
/// largest reference value, and the factors of the old and the new part), others none.
int64_t accumulator_state_bytes(const Graph& block_graph, const Operation& op);
constexpr int kAccumulatorStates = 3;

}  // namespace strata
