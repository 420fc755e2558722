// Kernel graphs from kernels: which of the ways to make each value, so that the whole is cheapest.
#pragma once

#include "superopt/optimize/cost.h"
#include "superopt/search/instantiate.h"

namespace strata {

/// One way to make a kernel-level value with one launch.
struct KernelChoice {
  int result = 0;           ///< class
  std::vector<int> inputs;  ///< classes
  GraphPtr body;            ///< the block graph; null for a predefined operator
  const Derivation* predefined = nullptr;
  double seconds = 0;
};

struct AssemblyLimits {
  int max_kernel_ops = 5;
  size_t max_graphs = 1024;  ///< the cheapest are kept
  int ways_per_kernel = 2;   ///< in graphs of two or more kernels: the cheapest for one value from one set of values
};

/// What the assembly must know of a kernel-level class.
struct KernelValue {
  std::string name;
  std::optional<TensorType> type;  ///< real; none where it cannot be a tensor of its own
};

/// All kernel graphs of at most max_kernel_ops choices that make the program's outputs, cheapest first; at most
/// max_graphs. `outputs` are the classes of the program's outputs.
std::vector<GraphPtr> assemble(const Graph& program, const ClassGraph& kernel, const std::vector<KernelValue>& values,
                               const std::vector<int>& outputs, const std::vector<KernelChoice>& choices,
                               const AssemblyLimits& limits, const Target& target);

}  // namespace strata
