// The part of the CUDA driver's interface that puts loops into graphs, which drivers before CUDA 12.4 lack. Types are
// laid out as the driver's own header has them.
#pragma once

#include "runtime/cuda_driver.h"

namespace strata {

using CudaGraphNode = struct CudaGraphNodeTag*;

/// What cuGraphAddNode is told of a node that runs a graph while a condition holds.
struct CudaConditionalNode {
  static constexpr int kConditional = 13;  ///< the kind of node
  static constexpr int kIf = 0;
  static constexpr int kWhile = 1;
  int kind = kConditional;
  std::array<int, 3> reserved{};
  uint64_t handle = 0;
  int condition = kWhile;
  unsigned size = 1;            ///< graphs that the node has
  CudaGraph* graphs = nullptr;  ///< set by the driver, whose they are
  CudaContext context = nullptr;
  std::array<long long, 26> rest{};
};

static_assert(sizeof(CudaConditionalNode) == 256 && offsetof(CudaConditionalNode, graphs) == 32);

/// Functions return 0, or an error that CudaDriver::check() names.
struct CudaGraphNodes {
  static constexpr int kLeastVersion = 12040;
  static constexpr int kRecorded = 1;              ///< of stream_state
  static constexpr unsigned kInPlaceOfOthers = 1;  ///< of set_dependencies

  int (*current_context)(CudaContext*);
  /// (handle, graph, context, value at the start, flags)
  int (*create_condition)(uint64_t*, CudaGraph, CudaContext, unsigned, unsigned);
  /// (node, graph, what it depends on, kinds of these dependencies or null, their number, node's parameters)
  int (*add_node)(CudaGraphNode*, CudaGraph, const CudaGraphNode*, const void*, size_t, CudaConditionalNode*);
  /// (stream, state, number, graph, what the next node depends on, kinds of these dependencies, their number)
  int (*stream_state)(CudaStream, int*, uint64_t*, CudaGraph*, const CudaGraphNode**, const void**, size_t*);
  int (*set_dependencies)(CudaStream, CudaGraphNode*, const void*, size_t, unsigned);
  int (*begin_capture_to_graph)(CudaStream, CudaGraph, const CudaGraphNode*, const void*, size_t, int);
};

/// Of the library that open_cuda_driver() opens. Error (Unsupported) where it lacks a function.
Result<CudaGraphNodes> open_graph_nodes();

}  // namespace strata
