// Kernel graphs from kernels: which of the ways to make each value, so that the whole is cheapest.
#pragma once

#include "superopt/optimize/cost.h"
#include "superopt/search/instantiate.h"

namespace strata {

/// One way to make a kernel-level value: one launch, or two where a reduction is split over the grid.
struct KernelChoice {
  int result = 0;           ///< class
  std::vector<int> inputs;  ///< classes
  GraphPtr graph;           ///< a kernel graph with one output; null for a predefined operator
  const Derivation* predefined = nullptr;
  double seconds = 0;

  int kernels() const { return graph ? static_cast<int>(graph->operations().size()) : 1; }
};

/// Block graphs as a choice, each reading the one before it; nullopt where the pieces do not fit.
std::optional<KernelChoice> kernel_choice(int result, std::vector<int> inputs, const std::vector<GraphPtr>& bodies,
                                          const Target& target);

struct AssemblyLimits {
  int max_kernel_ops = 5;
  size_t max_graphs = 512;  ///< of each number of kernels the cheapest are kept
  int ways_per_kernel = 2;  ///< in graphs of two or more kernels: the cheapest for one value from one set of values
};

/// What the assembly must know of a kernel-level class.
struct KernelValue {
  std::string name;
  std::optional<TensorType> type;  ///< real; none where it cannot be a tensor of its own
};

/// Estimated time of the cheapest kernel graph that assemble would build; infinity where there is none.
double cheapest_assembly(const ClassGraph& kernel, const std::vector<KernelValue>& values,
                         const std::vector<int>& outputs, const std::vector<KernelChoice>& choices,
                         const AssemblyLimits& limits, const Target& target);

/// All kernel graphs of at most max_kernel_ops kernels that make the program's outputs, cheapest first; of each number
/// of kernels at most max_graphs, so that a cost model's mistakes about launches hide nothing. `outputs` are the
/// classes of the program's outputs.
std::vector<GraphPtr> assemble(const Graph& program, const ClassGraph& kernel, const std::vector<KernelValue>& values,
                               const std::vector<int>& outputs, const std::vector<KernelChoice>& choices,
                               const AssemblyLimits& limits, const Target& target);

}  // namespace strata
