// The scatter emitter: the output begins as the operand, and a thread combines some elements of the updates with it.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/types.h"
#include "emitters/kinds/access_width.h"
#include "emitters/kinds/combiners.h"
#include "emitters/kinds/in_place.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/plan.h"
#include "emitters/kinds/scatter/in_place_plan.h"
#include "indexing/simplify.h"
#include "indexing/thread_maps.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using indexing::Expr;
using indexing::IndexingMap;
using indexing::Interval;
using mlir::Value;
using mlir::ValueRange;

/// The output with an update combined with the element at `position`.
Value combined(mlir::ImplicitLocOpBuilder& builder, const ScatterPlan& plan, mlir::func::FuncOp scalar, Value update,
               Value output, ValueRange position) {
  const auto call = [&](Value element) {
    return builder.create<PureCallOp>(scalar.getResultTypes(), scalar.getName(), ValueRange{element, update})
        .getResult(0);
  };
  if (plan.write == Write::Atomic) {
    auto atomic = builder.create<AtomicRmwOp>(output.getType(), plan.combiner, update, output, position);
    if (plan.combiner == Combiner::Custom) {
      mlir::OpBuilder::InsertionGuard guard(builder);
      mlir::Block* body = builder.createBlock(&atomic.getBody(), {}, {update.getType(), update.getType()},
                                              {builder.getLoc(), builder.getLoc()});
      auto result = builder.create<PureCallOp>(scalar.getResultTypes(), scalar.getName(), body->getArguments());
      builder.create<YieldOp>(result.getResults());
    }
    return atomic.getResult();
  }
  const Value next =
      plan.write == Write::Replace ? update : call(builder.create<mlir::tensor::ExtractOp>(output, position));
  return builder.create<mlir::tensor::InsertOp>(next, output, position);
}

/// What the code of one kernel needs.
struct Emission {
  const ScatterPlan& plan;
  FusionFunctions& functions;
  mlir::func::FuncOp scalar;  ///< the computation, where it is called
  Kernel& kernel;
};

/// The updates of a vector, as one value.
Result<Value> read_updates(mlir::ImplicitLocOpBuilder& builder, const Emission& emission, Value number) {
  const ScatterPlan& plan = emission.plan;
  const hlo::ElementType type = emission.functions.computation()[plan.updates].shape.type;
  const mlir::Type element = element_type(builder.getContext(), type);
  std::optional<Error> error;
  const auto one = [&](mlir::ImplicitLocOpBuilder& inside, Value v) -> Value {
    const Values index = apply_map(inside, plan.visits, {emission.kernel.place(), {number, v}, {}});
    Result<Values> update = emission.functions.read(inside, plan.updates, emission.kernel.inputs(), index);
    if (update) return (*update)[0];
    error = std::move(update).error();
    return {};
  };
  if (plan.vector == 1) {
    const Value update = one(builder, builder.create<mlir::arith::ConstantIndexOp>(0));
    if (error) return tl::unexpected(std::move(*error));
    return update;
  }
  const auto all = mlir::VectorType::get({plan.vector}, element);
  const Value none = builder.create<mlir::arith::ConstantOp>(llvm::cast<mlir::TypedAttr>(builder.getZeroAttr(all)));
  IndexingMap elements;
  elements.ranges = {indexing::below(plan.vector)};
  auto loop = create_loop(builder, elements, {}, none, 0,
                          [&](mlir::ImplicitLocOpBuilder& inside, ValueRange v, ValueRange, ValueRange before) {
                            const Value update = one(inside, v[0]);
                            if (!update) return Values(before);
                            return Values{inside.create<mlir::vector::InsertOp>(update, before[0], v[0])};
                          });
  if (error) return tl::unexpected(std::move(*error));
  return loop.getResult(0);
}

/// The output with vector `number` of the thread, whose first element has the index `first` in the updates.
Result<Value> emit_updates(mlir::ImplicitLocOpBuilder& builder, const Emission& emission, Value number,
                           ValueRange first, Value output) {
  const ScatterPlan& plan = emission.plan;
  // Read whether they are written or not, so that they do not wait for the start indices.
  STRATA_TRY(const Value updates, read_updates(builder, emission, number));
  Values starts;
  for (const IndexingMap& start : plan.starts) {
    const Values place = apply_map(builder, start, {Values(first), {}, {}});
    STRATA_TRY(const Values integer, emission.functions.read(builder, plan.indices, emission.kernel.inputs(), place));
    starts.push_back(index_of(builder, integer[0], emission.functions.computation()[plan.indices].shape.type));
  }
  Values tested(first);
  llvm::append_range(tested, starts);
  const Value fits = constraints_hold(builder, plan.tests, plan.tests.constraints, {tested, {}, {}});
  auto branches = builder.create<mlir::scf::IfOp>(mlir::TypeRange(output.getType()), fits, /*withElse=*/true);
  mlir::OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branches.thenBlock());
  IndexingMap elements;
  elements.ranges = {indexing::below(plan.vector)};
  auto loop =
      create_loop(builder, elements, {}, output, 0,
                  [&](mlir::ImplicitLocOpBuilder& inside, ValueRange v, ValueRange, ValueRange before) {
                    Values index = apply_map(inside, plan.visits, {emission.kernel.place(), {number, v[0]}, {}});
                    llvm::append_range(index, starts);
                    const Values position = apply_map(inside, plan.position, {index, {}, {}});
                    const Value update =
                        plan.vector == 1 ? updates : inside.create<mlir::vector::ExtractOp>(updates, v[0]).getResult();
                    return Values{combined(inside, plan, emission.scalar, update, before[0], position)};
                  });
  builder.create<mlir::scf::YieldOp>(loop.getResults());
  builder.setInsertionPointToStart(branches.elseBlock());
  builder.create<mlir::scf::YieldOp>(output);
  return branches.getResult(0);
}

Result<void> emit_scatter(const Fusion& fusion, const ScatterPlan& plan, const Decision& decision,
                          mlir::ModuleOp target, const std::string& name) {
  indexing::PartitionOptions options;
  options.heroes = decision.heroes;
  STRATA_TRY(FusionFunctions functions, FusionFunctions::create(target, fusion.module, fusion.id, options));
  mlir::func::FuncOp scalar;
  if (plan.write == Write::Plain || (plan.write == Write::Atomic && plan.combiner == Combiner::Custom)) {
    STRATA_TRY(scalar, functions.scalar_function(functions.computation()[plan.scatter].called[0], /*wide=*/false));
  }
  Kernel kernel(functions, name, decision);
  if (decision.launch().blocks == 0) {
    kernel.finish(kernel.outputs());
    return {};
  }
  const Emission emission{plan, functions, scalar, kernel};
  std::optional<Error> error;
  auto loop =
      create_loop(kernel.builder(), first_of_vectors(plan.visits), kernel.place(), kernel.outputs(), std::nullopt,
                  [&](mlir::ImplicitLocOpBuilder& inside, ValueRange number, ValueRange first, ValueRange before) {
                    const Result<Value> after = emit_updates(inside, emission, number[0], first, before[0]);
                    if (after) return Values{*after};
                    error = after.error();
                    return Values(before);
                  });
  if (error) return tl::unexpected(std::move(*error));
  kernel.finish(loop.getResults());
  return {};
}

std::string text_of(const ScatterPlan& plan) {
  if (plan.write == Write::Replace) return "replaces";
  if (plan.write == Write::Plain) return "no atomics: indices are unique";
  return "atomic " + stringifyCombiner(plan.combiner).str();
}

}  // namespace

Result<Plan> plan_scatter(const Fusion& fusion) {
  const hlo::Computation& computation = fusion.computation();
  const hlo::Instruction& root = computation.root_instruction();
  STRATA_TRY(ScatterPlan made, plan_in_place(fusion));
  Plan plan;
  STRATA_TRY(const Preparation preparation, preparation_in_place(computation, root.operands[0], root.shape));
  const hlo::Shape& updates = computation[made.updates].shape;
  const int64_t elements = updates.element_count();
  AccessWidth width = choose_access_width(fusion, elements);
  width.unroll = std::max<int64_t>(width.unroll * width.vector / made.vector, 1);
  width.vector = made.vector;
  made.visits = visits_of(updates, width);
  const bool nothing = made.visits.known_empty || made.position.known_empty || root.shape.element_count() == 0;
  plan.decision.emitter = "scatter";
  plan.decision.reason = "updates are combined with the operand in place";
  plan.decision.launch().threads = width.threads;
  plan.decision.launch().blocks = nothing ? 0 : width.blocks(elements);
  plan.decision.details = {{"updates", std::to_string(elements)},
                           {"combines", text_of(made)},
                           {"vector", std::to_string(width.vector)},
                           {"unroll", std::to_string(width.unroll)}};
  plan.decision.preparations = {preparation};
  plan.decision.heroes = {made.scatter};
  plan.decision.microseconds = microseconds_in_place(made, computation, preparation, fusion.target);
  plan.emit = [fusion, made, decision = plan.decision](mlir::ModuleOp target, const std::string& name) {
    return emit_scatter(fusion, made, decision, target, name);
  };
  return plan;
}

}  // namespace strata::emitters
