#include "emitters/kinds/scatter/windows.h"

#include <fmt/format.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>

#include <algorithm>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/types.h"
#include "emitters/kinds/access_width.h"
#include "emitters/kinds/code.h"
#include "emitters/kinds/in_place.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/scatter/in_place_plan.h"
#include "hlo/scatter_places.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using indexing::Expr;
using indexing::IndexingMap;
using indexing::Interval;
using mlir::Value;
using mlir::ValueRange;
using Builder = mlir::ImplicitLocOpBuilder;

struct WindowsPlan {
  InstructionId scatter = 0, operand = 0, indices = 0, updates = 0;
  bool replaces = false;
  int64_t vector = 1;               ///< elements of the output that lie together and are all of a window, or none
  IndexingMap visits;               ///< (block, thread)[unroll, vector] → index of the output
  std::vector<IndexingMap> starts;  ///< index of the output → of the indices, for each scattered dimension
  IndexingMap tests;                ///< (index of the output…, starts…) → nothing, where a window reaches
  IndexingMap update;               ///< the same, where one does → index of the updates
};

int64_t number_in(const std::vector<int64_t>& list, int64_t value) {
  const auto found = std::ranges::find(list, value);
  return found == list.end() ? -1 : found - list.begin();
}

/// `starts`, `tests`, `update` and the longest `vector`.
Result<void> place(WindowsPlan& plan, const hlo::Computation& computation) {
  const hlo::Instruction& it = computation[plan.scatter];
  const auto& how = it.as<hlo::ScatterAttributes>();
  const hlo::Shape& indices = computation[plan.indices].shape;
  const hlo::Shape& updates = computation[plan.updates].shape;
  const IndexingMap of_output = indexing::identity_map(it.shape.dims);
  const std::vector<int64_t> extents = hlo::scatter_extents(how, it.shape.dims.size(), updates.dims);
  // The batch of an element: its index in the batching dimensions.
  std::vector<Expr> batch;
  for (int64_t d = 0; d < indices.rank(); ++d) {
    if (d == how.index_vector_dim) continue;
    const int64_t number = number_in(how.scatter_indices_batching_dims, d);
    if (number < 0 && indices.dim(d) != 1) return unsupported("{} may have several updates of an element", it.name);
    const auto at = static_cast<size_t>(std::max<int64_t>(number, 0));
    batch.push_back(number < 0 ? Expr::constant(0)
                               : of_output.results[static_cast<size_t>(how.input_batching_dims[at])]);
  }
  IndexingMap map = of_output;
  for (size_t i = 0; i < how.scatter_dims_to_operand_dims.size(); ++i) {
    IndexingMap start = of_output;
    start.results = batch;
    if (how.index_vector_dim < indices.rank())
      start.results.insert(start.results.begin() + how.index_vector_dim, Expr::constant(static_cast<int64_t>(i)));
    plan.starts.push_back(std::move(start));
    map.dims.push_back(values_of_index(indices.type));
  }
  plan.tests = map;
  plan.tests.results.clear();
  std::vector<Expr> places(updates.dims.size());
  std::vector<bool> is_whole(it.shape.dims.size(), false);  // a window has all elements along the dimension, or none
  size_t window = 0, of_batch = 0;
  for (size_t u = 0; u < places.size(); ++u) {
    if (number_in(how.update_window_dims, static_cast<int64_t>(u)) < 0) places[u] = batch[of_batch++];
  }
  for (int64_t d = 0; d < it.shape.rank(); ++d) {
    if (number_in(how.input_batching_dims, d) >= 0) continue;
    const bool inserted = number_in(how.inserted_window_dims, d) >= 0;
    const int64_t extent = extents[static_cast<size_t>(d)], last = it.shape.dim(d) - extent;
    const Expr element = of_output.results[static_cast<size_t>(d)];
    is_whole[static_cast<size_t>(d)] = last == 0;
    Expr place = element;
    if (const int64_t entry = number_in(how.scatter_dims_to_operand_dims, d); entry >= 0) {
      const auto number = it.shape.dims.size() + static_cast<size_t>(entry);
      const Expr start = Expr::dim(static_cast<int>(number));
      plan.tests.constraints.push_back({start, Interval{0, last}});
      map.dims[number] = {0, last};
      if (last > 0) place = element - start;
    }
    if (last > 0) plan.tests.constraints.push_back({place, Interval{0, extent - 1}});
    if (!inserted) places[static_cast<size_t>(how.update_window_dims[window++])] = place;
  }
  map.results = std::move(places);
  plan.update = indexing::simplify(map, indexing::UnusedVariables::Keep);
  int64_t together = 1;
  for (const int64_t d : it.shape.minor_to_major) {
    if (!is_whole[static_cast<size_t>(d)]) break;
    together *= it.shape.dim(d);
  }
  const int64_t bytes = hlo::byte_width(it.shape.type);
  while (2 * plan.vector * bytes <= 16 && together % (2 * plan.vector) == 0 && !hlo::is_complex(it.shape.type))
    plan.vector *= 2;
  return {};
}

class WindowsEmitter {
 public:
  WindowsEmitter(const WindowsPlan& plan, FusionFunctions& functions, const Decision& decision, const std::string& name)
      : plan_(plan), functions_(functions), kernel_(functions, name, decision) {}

  Result<void> run(mlir::func::FuncOp combine) {
    auto loop = create_loop(kernel_.builder(), first_of_vectors(plan_.visits), kernel_.place(), kernel_.outputs(),
                            std::nullopt, [&](Builder& inside, ValueRange number, ValueRange first, ValueRange before) {
                              return Values{written(inside, number[0], first, combine, before[0])};
                            });
    if (error_) return tl::unexpected(std::move(*error_));
    kernel_.finish(loop.getResults());
    return {};
  }

 private:
  using Element = llvm::function_ref<Value(Builder&, Value v)>;

  hlo::ElementType type() const { return functions_.computation()[plan_.scatter].shape.type; }

  /// What `element` gives for each element of a vector, as one value.
  Value vector_of(Builder& builder, Element element) {
    if (plan_.vector == 1) return element(builder, index_constant(builder, 0));
    const auto all = mlir::VectorType::get({plan_.vector}, element_type(builder.getContext(), type()));
    const Value none = builder.create<mlir::arith::ConstantOp>(llvm::cast<mlir::TypedAttr>(builder.getZeroAttr(all)));
    IndexingMap elements;
    elements.ranges = {indexing::below(plan_.vector)};
    return create_loop(builder, elements, {}, none, 0,
                       [&](Builder& inside, ValueRange v, ValueRange, ValueRange before) {
                         return Values{inside.create<mlir::vector::InsertOp>(element(inside, v[0]), before[0], v[0])};
                       })
        .getResult(0);
  }

  Value element_of(Builder& builder, Value all, Value v) const {
    return plan_.vector == 1 ? all : builder.create<mlir::vector::ExtractOp>(all, v).getResult();
  }

  Value read(Builder& builder, InstructionId id, ValueRange index) {
    Result<Values> element = functions_.read(builder, id, kernel_.inputs(), index);
    if (element) return (*element)[0];
    if (!error_) error_ = std::move(element).error();
    return emit_zero(builder, functions_.computation()[id].shape.type);
  }

  /// The output with vector `number` of the thread, whose first element has the index `first`. The operand is read
  /// before it is known whether a window reaches here, so that it does not wait for the start indices.
  Value written(Builder& builder, Value number, ValueRange first, mlir::func::FuncOp combine, Value output) {
    const auto index_at = [&](Builder& inside, Value v) {
      return apply_map(inside, plan_.visits, {kernel_.place(), {number, v}, {}});
    };
    const Value operand =
        vector_of(builder, [&](Builder& inside, Value v) { return read(inside, plan_.operand, index_at(inside, v)); });
    Values starts;
    for (const IndexingMap& start : plan_.starts) {
      const Value integer = read(builder, plan_.indices, apply_map(builder, start, {Values(first), {}, {}}));
      starts.push_back(index_of(builder, integer, functions_.computation()[plan_.indices].shape.type));
    }
    Values tested(first);
    llvm::append_range(tested, starts);
    const Value reaches = constraints_hold(builder, plan_.tests, plan_.tests.constraints, {tested, {}, {}});
    const Value next = if_holds(builder, reaches, operand, [&](Builder& inside) {
      return Values{vector_of(inside, [&](Builder& innermost, Value v) {
        Values index = index_at(innermost, v);
        llvm::append_range(index, starts);
        const Value update = read(innermost, plan_.updates, apply_map(innermost, plan_.update, {index, {}, {}}));
        if (!combine) return update;
        const Value element = element_of(innermost, operand, v);
        return innermost.create<PureCallOp>(combine.getResultTypes(), combine.getName(), ValueRange{element, update})
            .getResult(0);
      })};
    })[0];
    const IndexingMap position = position_map(functions_.computation()[plan_.scatter].shape);
    IndexingMap elements;
    elements.ranges = {indexing::below(plan_.vector)};
    return create_loop(
               builder, elements, {}, output, 0,
               [&](Builder& inside, ValueRange v, ValueRange, ValueRange before) {
                 const Values at = apply_map(inside, position, {index_at(inside, v[0]), {}, {}});
                 return Values{inside.create<mlir::tensor::InsertOp>(element_of(inside, next, v[0]), before[0], at)};
               })
        .getResult(0);
  }

  const WindowsPlan& plan_;
  FusionFunctions& functions_;
  Kernel kernel_;
  std::optional<Error> error_;
};

}  // namespace

Result<Plan> plan_scatter_windows_at_any_cost(const Fusion& fusion) {
  const hlo::Computation& computation = fusion.computation();
  const hlo::Instruction& root = computation.root_instruction();
  STRATA_CHECK(check_scatter(computation, {0, 1, 2}));
  const hlo::Computation& body = fusion.module[root.called[0]];
  for (const InstructionId id : body.parameters) {
    if (body[id].shape.type != root.shape.type) return unsupported("{} combines elements of another type", root.name);
  }
  const hlo::Shape& updates = computation[root.operands[2]].shape;
  const int64_t elements = root.shape.element_count();
  if (elements == 0 || updates.element_count() == 0) return unsupported("nothing is scattered");
  WindowsPlan made{computation.root, root.operands[0], root.operands[1], root.operands[2],
                   body.root == body.parameters[1]};
  STRATA_CHECK(place(made, computation));
  AccessWidth width = choose_access_width(fusion, elements);
  width.unroll = std::max<int64_t>(width.unroll * width.vector / made.vector, 1);
  width.vector = made.vector;
  made.visits = visits_of(root.shape, width);
  const auto bytes = static_cast<double>(hlo::byte_width(root.shape.type));
  const bool is_read = computation[made.operand].opcode == hlo::Opcode::Parameter;
  const double moved =
      bytes * (static_cast<double>(elements) * (is_read ? 2 : 1) + static_cast<double>(updates.element_count()));
  Plan plan;
  plan.decision.emitter = "scatter windows";
  plan.decision.reason = "an element has updates of one window at most: each is read and written once";
  plan.decision.launch().threads = width.threads;
  plan.decision.launch().blocks = width.blocks(elements);
  plan.decision.heroes = {made.scatter};
  plan.decision.microseconds = 1e6 * (fusion.target.rates.kernel + moved / fusion.target.rates.copy_bandwidth);
  plan.decision.details = {{"updates", fmt::format("{} elements of {}", updates.element_count(), elements)},
                           {"vector", std::to_string(width.vector)},
                           {"unroll", std::to_string(width.unroll)}};
  plan.emit = [fusion, made, decision = plan.decision](mlir::ModuleOp target, const std::string& name) -> Result<void> {
    indexing::PartitionOptions options;
    options.heroes = decision.heroes;
    STRATA_TRY(FusionFunctions functions, FusionFunctions::create(target, fusion.module, fusion.id, options));
    mlir::func::FuncOp combine;
    if (!made.replaces) {
      const hlo::ComputationId called = functions.computation()[made.scatter].called[0];
      STRATA_TRY(combine, functions.scalar_function(called, /*wide=*/false));
    }
    return WindowsEmitter(made, functions, decision, name).run(combine);
  };
  return plan;
}

Result<Plan> plan_scatter_windows(const Fusion& fusion) {
  STRATA_TRY(Plan plan, plan_scatter_windows_at_any_cost(fusion));
  const Result<Plan> in_place = plan_scatter(fusion);
  if (!in_place) return plan;
  for (const Preparation& one : in_place->decision.preparations) {
    if (one.kind == Preparation::Kind::Copy)
      return unsupported("a caller may spare the copy before an update in place");
  }
  if (in_place->decision.microseconds && *in_place->decision.microseconds <= *plan.decision.microseconds)
    return unsupported("{:.1f} µs in place, {:.1f} µs so, by a model", *in_place->decision.microseconds,
                       *plan.decision.microseconds);
  return plan;
}

}  // namespace strata::emitters
