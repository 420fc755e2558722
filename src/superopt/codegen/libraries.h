// Products that cuBLASLt and convolutions that cuDNN compute in place of generated code: which ones they can, what they
// cost, and what of the operators after products is done in the same launch. The libraries are not asked: that needs a
// GPU.
#pragma once

#include <optional>
#include <vector>

#include "superopt/codegen/generate.h"

namespace strata {

/// One launch of a library.
struct LibraryStep {
  LibraryWork work;
  std::vector<TensorId> arguments;  ///< whose memory its arguments are
};

/// What libraries do for one operator: a convolution; a product, with a bias and an activation after it if the graph
/// has them and nothing else reads what lies between; of concat_matmul two products, the second added to the first.
struct LibraryCall {
  std::vector<LibraryStep> steps;
  std::vector<size_t> operations;  ///< of the graph, ascending: all that the call does; it runs in place of the last

  std::vector<LibraryWork> work() const;
};

/// The calls that schedules ask for.
struct LibraryPlan {
  std::vector<LibraryCall> calls;
  std::vector<bool> strided;    ///< by operation: a product that reads transposes as views (ir/views.h)
  std::vector<bool> covered;    ///< by operation: part of a call
  std::vector<size_t> refused;  ///< operations that have an algorithm, and that no library can compute

  /// The call that runs in place of an operation; null where there is none.
  const LibraryCall* at(size_t operation) const;
};
LibraryPlan plan_libraries(const Graph& graph, const Schedules& schedules);

/// Which libraries there are; without a GPU, both are taken to be where the program will run.
struct AvailableLibraries {
  bool cublas_lt = true;
  bool cudnn = true;
};

/// Whether a convolution's groups have so few channels that cuDNN multiplies without tensor cores; then what it takes
/// by the number of products that are summed up, of elements of so many bytes, or of the gradient of `filters`.
bool has_few_channels(int64_t of_group);
double few_channels_seconds(double products, int64_t bytes, bool filters);

/// Microseconds of a launch, as seconds: docs/cost-model.md.
double library_seconds(const LibraryWork& work, const Target& target);
/// Of all launches of a call.
double library_seconds(const LibraryCall& call, const Target& target);

/// Schedules that give the first algorithm to every predefined product and convolution for which the model rates the
/// library clearly faster than generated code, and nothing to other operators. Empty where there is none, or the pass
/// is off.
Schedules library_schedules(const Graph& graph, const Target& target, const Passes& passes,
                            const AvailableLibraries& available = {});

/// The same without those of block graphs.
Schedules library_part(const Schedules& schedules);
/// The same without those of products; empty where no other is left.
Schedules without_products(const Graph& graph, const Schedules& schedules);
/// Whether any operator has an algorithm of the library.
bool uses_library(const Schedules& schedules);

}  // namespace strata
