// What the blocks of generated launches touch of their arguments, for manifests (GpuLaunch::accesses): the regions of
// block graphs and of predefined operators (block/regions.h), by the numbers of the launch's blocks.
//
// While a program is generated, maps take the numbers of a block along x, y and z. How blocks of one kind are numbered
// by those of another is a map as well, and is composed with them: a launch's blocks as those of its graph, of one of
// the kernels that share it, or of the kernel whose blocks it runs behind its own. Nothing is left out that a block may
// touch. What other things than its numbers decide (which block of a cluster, who comes last) is not exact.
#pragma once

#include <array>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "superopt/codegen/fronts.h"
#include "superopt/codegen/generate.h"
#include "superopt/codegen/handover.h"

namespace strata {

/// The accesses of blocks that are numbered by `numbers`: (other numbers)[…] → (the numbers that the maps take).
std::vector<GpuAccess> renumbered(const indexing::IndexingMap& numbers, std::vector<GpuAccess> accesses);

/// Blocks of a grid that are those of a launch along x, from number `first` on, x first.
indexing::IndexingMap blocks_from(int64_t first, const std::array<int64_t, 3>& grid);
/// Blocks of a grid that `blocks` blocks along x take in turn.
indexing::IndexingMap blocks_in_turn(int64_t blocks, const std::array<int64_t, 3>& grid);

/// As manifests have them: (the number along x)[those along y and z, as far as the grid has several, …] → index.
/// Simplified; without those that touch nothing.
std::vector<GpuAccess> manifest_accesses(const KernelLaunch& launch);

/// Sets KernelLaunch::block_accesses for launches of a graph's operators. Expects what the launch is to be otherwise.
class LaunchAccesses {
 public:
  /// `strided` as in ir/views.h. All must outlive it.
  LaunchAccesses(const Graph& graph, const std::vector<bool>& strided, const UncopiedFronts& fronts)
      : graph_(graph), strided_(strided), fronts_(fronts) {}

  /// Arguments: operands in memory, results, fronts of operands, and, where constants are packed, the buffer of these.
  void add_block_graph(KernelLaunch& made, const Operation& op, const BlockCode& code) const;
  /// The launch that packs constants: the same arguments.
  void add_packing(KernelLaunch& made, const Operation& op, const Packing& packing) const;
  /// A predefined operator, of a thread an element.
  void add_predefined(KernelLaunch& made, const Operation& op) const;
  /// A kernel of emitters; `type_of` are types of buffers.
  static void add_emitted(KernelLaunch& made, const EmittedKernel& kernel,
                          const std::function<ArrayType(const std::string&)>& type_of);

  /// An operator, and at which places among the launch's arguments its own are.
  struct Placed {
    const Operation& op;
    const std::vector<size_t>& places;
  };
  /// Two operators in one launch, which ends with the argument of their counters, one in so many elements.
  void add_handover(KernelLaunch& made, const Placed& first, const Placed& second, const BlockCode& code,
                    const HandoverGroups& groups, int64_t counter_stride) const;

 private:
  std::vector<GpuAccess> of_block_graph(const Placed& placed, const std::set<int64_t>& without = {}) const;
  std::vector<GpuAccess> of_concatenation(const Operation& op, int64_t threads) const;
  void add_read(const Placed& placed, size_t operand, bool exact, indexing::IndexingMap map,
                std::vector<GpuAccess>& found) const;

  const Graph& graph_;
  const std::vector<bool>& strided_;
  const UncopiedFronts& fronts_;
};

}  // namespace strata
