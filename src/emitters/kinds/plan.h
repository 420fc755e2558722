// How a fusion becomes a kernel: each emitter makes a plan, or says why it does not fit.
#pragma once

#include <mlir/IR/BuiltinOps.h>

#include <functional>

#include "emitters/kinds/decision.h"
#include "hlo/hlo.h"
#include "machine/target.h"

namespace strata::emitters {

/// A fusion: one computation that calls nothing but scalar functions.
struct Fusion {
  const hlo::Module& module;
  hlo::ComputationId id;
  const Target& target;
  /// Whether the decision is to be explained and checked: what is only told to users, and proofs of what each plan has,
  /// may take longer than to find it. Without that for plans that are only priced.
  bool explained = true;
  /// Arrays of parameters that it updates may be written over: an update in place copies nothing.
  bool overwrites = false;

  const hlo::Computation& computation() const { return module[id]; }
};

struct Plan {
  Decision decision;
  /// Writes the kernels and their functions into an empty module. `name` is the fusion's, with which the names of
  /// kernels begin (EmittedFusion::kernel_names).
  std::function<Result<void>(mlir::ModuleOp target, const std::string& name)> emit;
};

/// A plan, or why the emitter does not take the fusion (Unsupported). What they have in common: docs/emitters.md.
using Planner = Result<Plan> (*)(const Fusion& fusion);
Result<Plan> plan_loop(const Fusion& fusion);
/// The only one that takes loops, and takes nothing else.
Result<Plan> plan_element_loop(const Fusion& fusion);
Result<Plan> plan_reduction(const Fusion& fusion);
Result<Plan> plan_product(const Fusion& fusion);
Result<Plan> plan_scan(const Fusion& fusion);
Result<Plan> plan_window(const Fusion& fusion);
Result<Plan> plan_scatter(const Fusion& fusion);
Result<Plan> plan_scatter_copies(const Fusion& fusion);
Result<Plan> plan_dynamic_update_slice(const Fusion& fusion);
Result<Plan> plan_transpose(const Fusion& fusion);
Result<Plan> plan_sort(const Fusion& fusion);
Result<Plan> plan_concatenate(const Fusion& fusion);
Result<Plan> plan_input_slices(const Fusion& fusion);
/// A reshape of a parameter, which moves nothing; the second one says why it is never taken unasked: a kernel is better
/// than a copy.
Result<Plan> plan_reshape(const Fusion& fusion);
Result<Plan> plan_reshape_unasked(const Fusion& fusion);

/// Bytes of all tiles of shared memory that a kernel, or the only one of a module, allocates, each rounded up to 16.
int64_t shared_bytes(mlir::Operation* kernel);

/// The plan of the first emitter that takes the fusion, with the others' reasons; only the emitter `only` is asked if
/// that is not empty.
Result<Plan> choose_plan(const Fusion& fusion, const std::string& only = {});

}  // namespace strata::emitters
