// Dynamic-update-slice in place: the output begins as a copy of the operand, and the kernel writes the update only.
#include <fmt/format.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include "emitters/dialect/dialect.h"
#include "emitters/kinds/in_place.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/plan.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using indexing::Expr;
using indexing::IndexingMap;
using mlir::Value;
using mlir::ValueRange;

struct UpdatePlan {
  InstructionId hero = 0;
  IndexingMap visits;                      ///< (block, thread)[unroll, vector] → index of the update
  std::vector<indexing::Interval> starts;  ///< in which each start index is clamped
  IndexingMap position;                    ///< (index of the update…, starts…) → position in the output's memory
};

Result<Value> emit_element(mlir::ImplicitLocOpBuilder& builder, const UpdatePlan& plan,
                           const FusionFunctions& functions, ValueRange inputs, ValueRange index, Value output) {
  const hlo::Computation& computation = functions.computation();
  const hlo::Instruction& it = computation[plan.hero];
  STRATA_TRY(const Values update, functions.read(builder, it.operands[1], inputs, index));
  Values at(index);
  for (size_t d = 0; d < plan.starts.size(); ++d) {
    const InstructionId start = it.operands[2 + d];
    STRATA_TRY(const Values integer, functions.read(builder, start, inputs, {}));
    at.push_back(clamped_index(builder, integer[0], computation[start].shape.type, plan.starts[d]));
  }
  const Values position = apply_map(builder, plan.position, {at, {}, {}});
  return builder.create<mlir::tensor::InsertOp>(update[0], output, position).getResult();
}

Result<void> emit_update(const Fusion& fusion, const UpdatePlan& plan, const Decision& decision, mlir::ModuleOp target,
                         const std::string& name) {
  indexing::PartitionOptions options;
  options.heroes = decision.heroes;
  STRATA_TRY(const FusionFunctions functions, FusionFunctions::create(target, fusion.module, fusion.id, options));
  Kernel kernel(functions, name, decision);
  if (decision.launch().blocks == 0) {
    kernel.finish(kernel.outputs());
    return {};
  }
  std::optional<Error> error;
  auto loop = create_loop(kernel.builder(), plan.visits, kernel.place(), kernel.outputs(), /*vector=*/1,
                          [&](mlir::ImplicitLocOpBuilder& inside, ValueRange, ValueRange index, ValueRange before) {
                            const Result<Value> after =
                                emit_element(inside, plan, functions, kernel.inputs(), index, before[0]);
                            if (after) return Values{*after};
                            error = after.error();
                            return Values(before);
                          });
  if (error) return tl::unexpected(std::move(*error));
  kernel.finish(loop.getResults());
  return {};
}

}  // namespace

Result<Plan> plan_dynamic_update_slice(const Fusion& fusion) {
  const hlo::Computation& computation = fusion.computation();
  const hlo::Instruction& root = computation.root_instruction();
  if (root.opcode != hlo::Opcode::DynamicUpdateSlice) return unsupported("the root is no dynamic-update-slice");
  const hlo::Shape& update = computation.operand_shape(root, 1);
  const int64_t elements = update.element_count();
  // A loop over the result moves as much as the copy alone: measured, docs/benchmarks-emitters.md.
  if (8 * elements > root.shape.element_count()) {
    return unsupported("{} of {} elements are updated: a copy of all of them first costs more", elements,
                       root.shape.element_count());
  }
  for (size_t i = 1; i < root.operands.size(); ++i) {
    const hlo::Opcode opcode = computation[root.operands[i]].opcode;
    if (opcode == hlo::Opcode::GetTupleElement || (i > 1 && computation.operand_shape(root, i).rank() > 0)) {
      return unsupported("{} is no scalar", computation[root.operands[i]].name);
    }
  }
  STRATA_TRY(const Preparation preparation, preparation_in_place(computation, root.operands[0], root.shape));
  UpdatePlan made;
  made.hero = computation.root;
  IndexingMap map = indexing::identity_map(update.dims);
  for (size_t d = 0; d < update.dims.size(); ++d) {
    made.starts.push_back({0, root.shape.dims[d] - update.dims[d]});
    map.results[d] = map.results[d] + Expr::dim(static_cast<int>(map.dims.size()));
    map.dims.push_back(made.starts.back());
  }
  made.position = indexing::simplify(indexing::compose(map, position_map(root.shape)), indexing::UnusedVariables::Keep);
  const AccessWidth width = choose_access_width(fusion, elements);
  made.visits = visits_of(update, width);
  const bool nothing = made.visits.known_empty || made.position.known_empty;
  Plan plan;
  plan.decision.emitter = "dynamic-update-slice";
  plan.decision.reason = "little of the operand is updated, in place";
  plan.decision.launch().threads = width.threads;
  plan.decision.launch().blocks = nothing ? 0 : width.blocks(elements);
  plan.decision.details = {{"updates", fmt::format("{} elements of {}", elements, root.shape.element_count())},
                           {"vector", std::to_string(width.vector)},
                           {"unroll", std::to_string(width.unroll)}};
  plan.decision.preparations = {preparation};
  plan.decision.heroes = {made.hero};
  plan.emit = [fusion, made, decision = plan.decision](mlir::ModuleOp target, const std::string& name) {
    return emit_update(fusion, made, decision, target, name);
  };
  return plan;
}

}  // namespace strata::emitters
