// How a block graph may cut its inputs: which dimensions the grid and the loop divide.
#pragma once

#include <vector>

#include "superopt/search/class_graph.h"

namespace strata {

/// One way to cut some kernel-level values. Each grid dimension, and the loop, cuts at most one dimension of an input;
/// sizes are decided later (instantiate.h).
struct BlockSpace {
  int grid_rank = 1;      ///< 1 … 3
  bool cuts_grid = true;  ///< false: a single block, grid=[1]
  bool loops = false;
  std::vector<int> grid_axes;  ///< axis of each grid dimension; kMixedAxis where inputs disagree
  int loop_axis = kUnitAxis;
  /// The loop walks over the parts that another kernel's grid made of loop_axis.
  bool combines = false;
  std::vector<std::vector<int64_t>> imaps;  ///< for each input, for each grid dimension: a dimension or kReplicate
  std::vector<int64_t> fmaps;               ///< for each input

  std::string to_string() const;
};

/// All spaces over inputs with these axes. With `by_axes`, a grid or loop dimension is an axis and cuts it wherever it
/// occurs; without, every combination of dimensions is one (only for small cases: their number is exponential).
/// Grid dimensions that could be renamed into each other are listed once.
std::vector<BlockSpace> block_spaces(const std::vector<std::vector<int>>& input_axes, int max_grid_rank, bool by_axes);

/// Number of blocks, or iterations, that the model cuts a dimension into.
constexpr int64_t kModelCut = 2;

/// An operator of the program over kernel-level classes, as a hint: tried first, so that the program's own way is there
/// even where a space has too many values to be exhausted.
struct ProgramStep {
  OpKind kind;
  Attributes attributes;
  std::vector<int> operands;
  int result;
};

/// Block-level values of one space: in_iters of the given kernel values, and everything that operators make of them.
/// Null where an input is too small for the cuts.
std::unique_ptr<ClassGraph> explore_block(const BlockSpace& space, const std::vector<int>& input_classes,
                                          const ClassGraph& kernel, const std::vector<ProgramStep>& program,
                                          const Model& model, NormalForms& forms, SubexpressionOracle& oracle,
                                          SharedCounters& counters, ClassGraphOptions options);

/// Blocks and iterations as extents of abstract expressions: the primes of the axes that they cut; `sizes`, the space's
/// own numbers of blocks and iterations, where dimensions are mixed.
OpScope extent_scope(const BlockSpace& space, const Model& model, const OpScope& sizes);

/// What an out_saver with these attributes makes of the blocks' tiles, which are in the order of for_each_block.
FieldTensor saved_whole(const std::vector<FieldTensor>& tiles, const Shape& whole, const OpScope& scope,
                        const Attributes& attributes, FieldArithmetic arithmetic);

/// For each way to lay blocks side by side that makes `whole` out of a value of the space: the omap. The rules say
/// whether the value must have the whole's expression, and whether a grid dimension that cut an axis lays it out again.
std::vector<std::vector<int64_t>> output_maps(const BlockSpace& space, ClassGraph& graph, int block_class,
                                              const ValueClass& whole, const PruningRules& rules,
                                              FieldArithmetic arithmetic, SharedCounters& counters);

}  // namespace strata
