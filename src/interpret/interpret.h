// The reference executor: any µGraph over any Arithmetic, block by block and iteration by iteration as the hardware
// would run it, so that a wrong omap or accumulator shows. Slow and obvious on purpose: everything else is
// compared with it.
#pragma once

#include <stop_token>
#include <vector>

#include "ir/graph.h"

namespace strata {

/// Executes a kernel graph. `inputs` are the graph's inputs in order, with their shapes, or its arguments alone: what
/// stands for an iota is not read. The result holds its outputs in order. Error where inputs do not fit the graph, or
/// (Interrupted) when `stop` is requested. Where the arithmetic rounds storage, inputs and every kernel-level tensor
/// are rounded to their types; block tensors are not, since kernels hold them in single precision or better.
template <class A>
Result<std::vector<Tensor<typename A::Value>>> execute(const Graph& graph, A& arithmetic,
                                                       const std::vector<Tensor<typename A::Value>>& inputs,
                                                       const std::stop_token& stop = {});

/// As execute, and returns every tensor of the kernel graph, by TensorId.
template <class A>
Result<std::vector<Tensor<typename A::Value>>> execute_all(const Graph& graph, A& arithmetic,
                                                           const std::vector<Tensor<typename A::Value>>& inputs,
                                                           const std::stop_token& stop = {});

}  // namespace strata
