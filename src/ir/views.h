// Kernel-level tensors that are other tensors read in another order.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace strata {

/// For each operation of a kernel graph, whether it is a view, so that it needs no kernel and no memory: a transpose or
/// a reshape whose result is no output, and that somebody reads. Where its elements lie row-major, anybody does; else
/// block graphs, other views and the operations marked in `strided` alone (none where it is empty), which read any
/// strides.
std::vector<bool> view_operations(const Graph& graph, const std::vector<bool>& strided = {});

/// A tensor as it lies in memory: whose memory it is, and the strides of its dimensions there, in elements. Other
/// tensors than results of views lie row-major in memory of their own.
struct MemoryView {
  TensorId memory;
  std::vector<int64_t> strides;
};
MemoryView memory_view(const Graph& graph, TensorId id, const std::vector<bool>& strided = {});

/// Whether strides are those of elements that lie one after the other in the order of their indices. Those of
/// dimensions of one element mean nothing.
bool is_row_major(const Shape& shape, const std::vector<int64_t>& strides);

/// The strides by which elements that lie as `strides` say have the shape `to`, in the same order. Nothing where no
/// strides do. Both shapes have as many elements.
std::optional<std::vector<int64_t>> reshaped_strides(const Shape& from, const std::vector<int64_t>& strides,
                                                     const Shape& to);

}  // namespace strata
