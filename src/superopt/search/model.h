// The small program on which the search runs.
//
// Which operators can be chained, and whether a chain computes the program, does not depend on how long the
// dimensions are. So the program is shrunk: dimensions that its operators tie together form an *axis*, and every
// axis gets a small size of its own, divisible into 2 grid blocks of 2 loop iterations. µGraphs are found on the
// model and instantiated with real sizes afterwards. Sizes of different axes differ, so that nothing fits by accident,
// while no tensor of the model has more than kMostElements; where that takes it, the shortest axes share a size, and no
// grid or loop cuts them.
#pragma once

#include <stop_token>
#include <vector>

#include "ir/graph.h"
#include "superopt/expr/normal_forms.h"

namespace strata {

/// Dimensions that are walked together: one entry of the model.
struct Axis {
  int64_t real;   ///< the program's size
  int64_t model;  ///< the model's size
  /// Extents in abstract expressions: three primes of the axis's own for blocks, iterations and tile. A sum over part
  /// of an axis, or over another axis, then has an extent that does not divide the program's, and is pruned: with sizes
  /// as extents, sum(q·k) = sum(q)·k would pass whatever is summed (Mirage's expressions forget dimensions).
  /// All 1 where the program sums over so many axes that the product of their extents fits no integer: of such an axis
  /// expressions do not tell whether it has been summed over.
  int64_t grid_extent = 1;
  int64_t loop_extent = 1;
  int64_t tile_extent = 1;

  int64_t extent() const { return grid_extent * loop_extent * tile_extent; }
  bool told() const { return extent() > 1; }
};

/// In place of an axis: a dimension of size 1, or one that is no whole axis (a part, several interleaved).
constexpr int kUnitAxis = -1;
constexpr int kMixedAxis = -2;

using FieldValue = FieldArithmetic::Value;
using FieldTensor = Tensor<FieldValue>;

/// A tensor of the program, in the model.
struct ModelTensor {
  Shape shape;
  Shape extents;          ///< for abstract expressions
  std::vector<int> axes;  ///< one a dimension
  ExprId expression = 0;
  FieldTensor value;  ///< on the model's random inputs
};

class Model {
 public:
  /// Of a tensor of the model; a program that regroups dimensions may not fit.
  static constexpr int64_t kMostElements = int64_t{1} << 17;
  /// The same where the program ties dimensions to their real size: its search takes longer, but is worth it.
  static constexpr int64_t kMostRealElements = int64_t{1} << 20;

  /// `one_axis_a_cut`: whether a dimension of a grid or a loop cuts the same axis of all tensors. Where it may cut
  /// several, no number of blocks divides the extents of all, so that extents are sizes.
  /// Error (Unsupported) where the program has graph-defined operators, or its model is too large; (Interrupted) when
  /// `stop` is requested.
  static Result<Model> build(const GraphPtr& program, NormalForms& forms, uint64_t seed,
                             const std::stop_token& stop = {}, bool one_axis_a_cut = true);

  const Graph& program() const { return *program_; }  ///< with real sizes
  const Graph& graph() const { return *graph_; }      ///< with model sizes; the same ids
  const std::vector<Axis>& axes() const { return axes_; }
  /// Whether extents follow axes; not where the program regroups dimensions (reshape, repeat, concat) or a cut is of
  /// several axes: then extents are the model's sizes.
  bool extents_by_axis() const { return extents_by_axis_; }
  const ModelTensor& tensor(TensorId id) const { return tensors_[static_cast<size_t>(id)]; }
  FieldArithmetic arithmetic() const { return arithmetic_; }
  /// Real sizes of dimensions with these axes; nullopt where one is mixed.
  std::optional<Shape> real_shape(const std::vector<int>& axes) const;

 private:
  friend class ModelBuilder;
  explicit Model(FieldArithmetic arithmetic) : arithmetic_(std::move(arithmetic)) {}

  GraphPtr program_;
  GraphPtr graph_;
  std::vector<Axis> axes_;
  bool extents_by_axis_ = true;
  std::vector<ModelTensor> tensors_;
  FieldArithmetic arithmetic_;
};

/// Axes of an operator's result, from those of its operands: result dimensions inherit by label.
std::vector<int> result_axes(const IndexLabels& labels, const std::vector<const std::vector<int>*>& operands,
                             const Shape& result);

}  // namespace strata
