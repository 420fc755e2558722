// Dynamic-update-slices in place: outputs begin as copies of the operands, and the kernel writes the updates only.
// Other outputs, of as many elements as each update, are written beside.
#include <fmt/format.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include <algorithm>

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

/// One array of the root that is updated in place.
struct Update {
  InstructionId hero = 0;
  int output = 0;
  std::vector<indexing::Interval> starts;  ///< in which each start index is clamped
  IndexingMap position;                    ///< (index of the update…, starts…) → position in the output's memory
};

struct UpdatePlan {
  std::vector<Update> updates;
  int64_t elements = 0;  ///< of each update, and of each of the other arrays of the root
  AccessWidth width;
  bool nothing = false;  ///< to do
};

/// (block, thread)[unroll, vector] → the indices of shapes of so many elements, one after the other.
IndexingMap visits_of(const std::vector<hlo::Shape>& shapes, const AccessWidth& width) {
  IndexingMap visits = visits_of(shapes[0], width);
  for (size_t i = 1; i < shapes.size(); ++i) {
    const IndexingMap more = visits_of(shapes[i], width);
    visits.results.insert(visits.results.end(), more.results.begin(), more.results.end());
  }
  return visits;
}

class UpdateEmitter {
 public:
  UpdateEmitter(const UpdatePlan& plan, const FusionFunctions& functions, const Decision& decision,
                const std::string& name)
      : plan_(plan), functions_(functions), kernel_(functions, name, decision) {
    for (const Update& update : plan.updates) {
      const hlo::Computation& computation = functions.computation();
      shapes_.push_back(computation.operand_shape(computation[update.hero], 1));
    }
    // Other arrays of the root, at the same places.
    const std::vector<indexing::FunctionPartition::RootValue>& roots = functions.partition().roots;
    for (size_t i = 0; i < roots.size(); ++i) {
      const int function = roots[i].function;
      const auto is_here = [&](const Update& update) { return update.output == static_cast<int>(i); };
      if (std::ranges::any_of(plan.updates, is_here) || std::ranges::count(others_, function) > 0) continue;
      const indexing::Function& of = functions.partition().functions[static_cast<size_t>(function)];
      others_.push_back(function);
      shapes_.push_back(indexing::element_shape(functions.computation()[of.results[0].instruction].shape, 0));
    }
  }

  Result<void> emit() {
    if (plan_.nothing) {
      kernel_.finish(kernel_.outputs());
      return {};
    }
    std::optional<Error> error;
    auto loop = create_loop(kernel_.builder(), visits_of(shapes_, plan_.width), kernel_.place(), kernel_.outputs(),
                            /*vector=*/1,
                            [&](mlir::ImplicitLocOpBuilder& inside, ValueRange, ValueRange indices, ValueRange before) {
                              Result<Values> after = emit_elements(inside, indices, before);
                              if (after) return *std::move(after);
                              error = after.error();
                              return Values(before);
                            });
    if (error) return tl::unexpected(std::move(*error));
    kernel_.finish(loop.getResults());
    return {};
  }

 private:
  Result<Values> emit_elements(mlir::ImplicitLocOpBuilder& builder, ValueRange indices, ValueRange before) {
    Values outputs(before);
    size_t taken = 0, shape = 0;
    const auto next_index = [&] {
      const size_t rank = shapes_[shape++].dims.size();
      taken += rank;
      return indices.slice(taken - rank, rank);
    };
    for (const Update& update : plan_.updates) {
      Value& output = outputs[static_cast<size_t>(update.output)];
      STRATA_TRY(output, emit_update(builder, update, next_index(), output));
    }
    for (const int function : others_)
      outputs = write_outputs(builder, functions_, function, kernel_.inputs(), next_index(), {}, std::move(outputs));
    return outputs;
  }

  Result<Value> emit_update(mlir::ImplicitLocOpBuilder& builder, const Update& of, ValueRange index, Value output) {
    const hlo::Computation& computation = functions_.computation();
    const hlo::Instruction& it = computation[of.hero];
    STRATA_TRY(const Values update, functions_.read(builder, it.operands[1], kernel_.inputs(), index));
    Values at(index);
    for (size_t d = 0; d < of.starts.size(); ++d) {
      const InstructionId start = it.operands[2 + d];
      STRATA_TRY(const Values integer, functions_.read(builder, start, kernel_.inputs(), {}));
      at.push_back(clamped_index(builder, integer[0], computation[start].shape.type, of.starts[d]));
    }
    const Values position = apply_map(builder, of.position, {at, {}, {}});
    return builder.create<mlir::tensor::InsertOp>(update[0], output, position).getResult();
  }

  const UpdatePlan& plan_;
  const FusionFunctions& functions_;
  Kernel kernel_;
  std::vector<int> others_;         ///< functions of the root beside updates
  std::vector<hlo::Shape> shapes_;  ///< of the updates, and of what the functions compute
};

/// How an array of the root is updated, and what it must hold before.
Result<Preparation> plan_update(const Fusion& fusion, int output, UpdatePlan& plan) {
  const hlo::Computation& computation = fusion.computation();
  Update made;
  made.output = output;
  made.hero = computation.root;
  if (computation.root_instruction().opcode == hlo::Opcode::Tuple)
    made.hero = computation.root_instruction().operands[static_cast<size_t>(output)];
  const hlo::Instruction& it = computation[made.hero];
  const hlo::Shape& update = computation.operand_shape(it, 1);
  const int64_t elements = update.element_count();
  // A loop over the result moves as much as the copy alone: measured, docs/benchmarks-emitters.md.
  if (!fusion.overwrites && 8 * elements > it.shape.element_count()) {
    return unsupported("{} of {} elements are updated: a copy of all of them first costs more", elements,
                       it.shape.element_count());
  }
  for (size_t i = 1; i < it.operands.size(); ++i) {
    const hlo::Opcode opcode = computation[it.operands[i]].opcode;
    if (opcode == hlo::Opcode::GetTupleElement || (i > 1 && computation.operand_shape(it, i).rank() > 0)) {
      return unsupported("{} is no scalar", computation[it.operands[i]].name);
    }
  }
  STRATA_TRY(Preparation preparation, preparation_in_place(computation, it.operands[0], it.shape));
  preparation.output = output;
  IndexingMap map = indexing::identity_map(update.dims);
  for (size_t d = 0; d < update.dims.size(); ++d) {
    made.starts.push_back({0, it.shape.dims[d] - update.dims[d]});
    map.results[d] = map.results[d] + Expr::dim(static_cast<int>(map.dims.size()));
    map.dims.push_back(made.starts.back());
  }
  made.position = indexing::simplify(indexing::compose(map, position_map(it.shape)), indexing::UnusedVariables::Keep);
  plan.nothing |= made.position.known_empty;
  if (!plan.updates.empty() && elements != plan.elements)
    return unsupported("{} updates {} elements, another array {}", it.name, elements, plan.elements);
  plan.elements = elements;
  plan.updates.push_back(std::move(made));
  return preparation;
}

}  // namespace

Result<Plan> plan_dynamic_update_slice(const Fusion& fusion) {
  const hlo::Computation& computation = fusion.computation();
  const hlo::Instruction& root = computation.root_instruction();
  const bool several = root.opcode == hlo::Opcode::Tuple;
  const std::vector<InstructionId> outputs = several ? root.operands : std::vector{computation.root};
  const auto is_update = [&](InstructionId id) { return computation[id].opcode == hlo::Opcode::DynamicUpdateSlice; };
  if (std::ranges::none_of(outputs, is_update)) return unsupported("the root is no dynamic-update-slice");
  UpdatePlan made;
  Plan plan;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_update(outputs[i])) continue;
    STRATA_TRY(Preparation preparation, plan_update(fusion, static_cast<int>(i), made));
    plan.decision.preparations.push_back(std::move(preparation));
    plan.decision.heroes.push_back(outputs[i]);
  }
  for (const InstructionId id : outputs) {
    const hlo::Shape& shape = computation[id].shape;
    if (!is_update(id) && (!shape.is_array() || shape.element_count() != made.elements))
      return unsupported("{} has not as many elements as the update", computation[id].name);
  }
  for (const InstructionId hero : plan.decision.heroes) {
    int64_t reads = several ? 0 : 1;
    for (const hlo::Instruction& it : computation.instructions) reads += std::ranges::count(it.operands, hero);
    if (reads > 1) return unsupported("{} is read again", computation[hero].name);
  }
  made.width = choose_access_width(fusion, made.elements);
  const hlo::Instruction& first = computation[made.updates[0].hero];
  made.nothing |= visits_of(computation.operand_shape(first, 1), made.width).known_empty;
  plan.decision.emitter = "dynamic-update-slice";
  plan.decision.reason =
      fusion.overwrites ? "the operand is updated in place" : "little of the operand is updated, in place";
  plan.decision.launch().threads = made.width.threads;
  plan.decision.launch().blocks = made.nothing ? 0 : made.width.blocks(made.elements);
  std::string updates = fmt::format("{} elements of {}", made.elements, first.shape.element_count());
  if (made.updates.size() > 1) updates += fmt::format(", in {} arrays", made.updates.size());
  plan.decision.details = {{"updates", updates},
                           {"vector", std::to_string(made.width.vector)},
                           {"unroll", std::to_string(made.width.unroll)}};
  std::vector<int> groups;  // functions compute updates, or other arrays
  for (const InstructionId id : outputs) groups.push_back(is_update(id) ? 1 : 0);
  plan.emit = [fusion, made, groups, decision = plan.decision](mlir::ModuleOp target,
                                                               const std::string& name) -> Result<void> {
    indexing::PartitionOptions options;
    options.heroes = decision.heroes;
    options.root_groups = groups;
    STRATA_TRY(const FusionFunctions functions, FusionFunctions::create(target, fusion.module, fusion.id, options));
    return UpdateEmitter(made, functions, decision, name).emit();
  };
  return plan;
}

}  // namespace strata::emitters
