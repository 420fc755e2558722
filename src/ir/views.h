// Kernel-level tensors that are other tensors read in another order.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace strata {

/// For each operation of a kernel graph, whether it is a view: a transpose whose result is no output and that block
/// graphs, other views and the operations marked in `strided` alone read (none where it is empty). They read any
/// strides, so that it needs no kernel and no memory.
std::vector<bool> view_operations(const Graph& graph, const std::vector<bool>& strided = {});

/// A tensor as it lies in memory: whose memory it is, and the strides of its dimensions there, in elements. Other
/// tensors than results of views lie row-major in memory of their own.
struct MemoryView {
  TensorId memory;
  std::vector<int64_t> strides;
};
MemoryView memory_view(const Graph& graph, TensorId id, const std::vector<bool>& strided = {});

}  // namespace strata
