// Products that cuBLASLt computes in place of generated code: which ones it can, what they cost, and what of the
// operators behind them it does in the same launch. The library is not asked: that needs a GPU.
#pragma once

#include <optional>
#include <vector>

#include "superopt/codegen/generate.h"

namespace strata {

/// A product with a bias and an activation behind it, if the graph has them and nothing else reads what lies between.
struct LibraryCall {
  MatrixProduct product;
  std::vector<TensorId> arguments;  ///< whose memory is A, B, the bias if there is one, the result
  std::vector<size_t> operations;   ///< of the graph, ascending: all that the call does; it runs in place of the last
};

/// The calls that schedules ask for.
struct LibraryPlan {
  std::vector<LibraryCall> calls;
  std::vector<bool> strided;    ///< by operation: a product that reads transposes as views (ir/views.h)
  std::vector<bool> covered;    ///< by operation: part of a call
  std::vector<size_t> refused;  ///< operations that have an algorithm, and that the library cannot compute

  /// The call that runs in place of an operation; null where there is none.
  const LibraryCall* at(size_t operation) const;
};
LibraryPlan plan_libraries(const Graph& graph, const Schedules& schedules);

/// Microseconds of a launch, as seconds: docs/cost-model.md.
double library_seconds(const MatrixProduct& product, const Target& target);

/// Schedules that give the first algorithm to every predefined product for which the model rates the library clearly
/// faster than generated code, and nothing to other operators. Empty where there is none, or the pass is off.
Schedules library_schedules(const Graph& graph, const Target& target, const Passes& passes);

/// The same without those of block graphs.
Schedules library_part(const Schedules& schedules);
/// Whether any operator has an algorithm of the library.
bool uses_library(const Schedules& schedules);

}  // namespace strata
