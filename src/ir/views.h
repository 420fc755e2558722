// Kernel-level tensors that are other tensors read in another order.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace strata {

/// Whether an operator can be a view at all: its result has all elements of its operand, in another order or shape.
bool may_be_view(const Operation& op);
/// Whether an operator only names another order of an input's dimensions, which whoever reads it may take instead.
bool is_transposed_input(const Graph& graph, const Operation& op);

/// For each operation of a kernel graph, whether it is a view, so that it needs no kernel and no memory: a transpose or
/// a reshape whose result is no output, and that somebody reads. Where its elements lie row-major, anybody does; else
/// block graphs, other views and the operations marked in `strided` alone (none where it is empty), which read any
/// strides. Folded dimensions (MemoryView) are read by block graphs alone, whose tiles lie within a fold each.
std::vector<bool> view_operations(const Graph& graph, const std::vector<bool>& strided = {});

/// A dimension whose elements lie in pieces of `size`: from one piece to the next it is `stride` elements, and within a
/// piece the dimension's own stride from element to element. So lie the columns of heads side by side, of which each
/// has rows of its own in memory.
struct Fold {
  size_t dim = 0;
  int64_t size = 1;
  int64_t stride = 1;
  bool operator==(const Fold&) const = default;
};

/// A tensor as it lies in memory: whose memory it is, and the strides of its dimensions there, in elements. Other
/// tensors than results of views lie row-major in memory of their own.
struct MemoryView {
  TensorId memory;
  std::vector<int64_t> strides;
  std::vector<Fold> folds = {};  ///< of different dimensions, ascending
};
MemoryView memory_view(const Graph& graph, TensorId id, const std::vector<bool>& strided = {});
/// Of all tensors, by id: in one walk over the graph.
std::vector<MemoryView> memory_views(const Graph& graph, const std::vector<bool>& strided = {});

/// Whether strides are those of elements that lie one after the other in the order of their indices. Those of
/// dimensions of one element mean nothing.
bool is_row_major(const Shape& shape, const std::vector<int64_t>& strides);

/// The strides by which elements that lie as `strides` say have the shape `to`, in the same order. Nothing where no
/// strides do. Both shapes have as many elements. folded_strides has folds of dimensions beside them.
std::optional<std::vector<int64_t>> reshaped_strides(const Shape& from, const std::vector<int64_t>& strides,
                                                     const Shape& to);
struct FoldedStrides {
  std::vector<int64_t> strides;
  std::vector<Fold> folds;  ///< of different dimensions, ascending
};
std::optional<FoldedStrides> folded_strides(const Shape& from, const std::vector<int64_t>& strides, const Shape& to);

}  // namespace strata
