// From the model to real sizes: which numbers of blocks and iterations a block graph may run with.
#pragma once

#include "machine/target.h"
#include "superopt/optimize/cost.h"
#include "superopt/search/block_space.h"
#include "superopt/search/derive.h"

namespace strata {

/// A block graph at model sizes, with the kernel-level classes that it reads, in order.
struct BlockTemplate {
  GraphPtr body;
  std::vector<int> inputs;
};

/// What a block graph saves.
struct SavedTile {
  int block_class;
  std::vector<int64_t> omap;
  std::string name;
  std::optional<DType> dtype{};  ///< where not the block graph's inputs'
};

/// Builds the block graph that `derived` describes. `kernel_inputs` and `names` are those of the space's inputs.
Result<BlockTemplate> build_template(const BlockSpace& space, const ClassGraph& graph, const Derived& derived,
                                     const std::vector<SavedTile>& saved, const std::vector<int>& kernel_inputs,
                                     const std::vector<std::string>& names, DType dtype);

/// The same operators over other inputs, grid and loop. Error where they do not fit.
Result<GraphPtr> resize(const Graph& body, const std::vector<TensorType>& inputs, const LaunchShape& launch);

struct SizeRules {
  bool fill_device = true;  ///< only grids of between 60 % of the multiprocessors and a few blocks for each
  bool wide_tiles = true;   ///< tiles that the grid or loop cut keep 8 elements, or all that there are
};

/// Every launch shape under which `body` fits its inputs and the target's shared memory, as real block graphs; with
/// `wanted_loop`, only those of this many iterations.
std::vector<GraphPtr> instantiate(const Graph& body, const std::vector<TensorType>& inputs, const Target& target,
                                  const SizeRules& rules, SharedCounters& counters,
                                  std::optional<int64_t> wanted_loop = std::nullopt);

}  // namespace strata
