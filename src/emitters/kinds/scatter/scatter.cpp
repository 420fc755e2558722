// The scatter emitter: the output begins as the operand, and a thread combines some elements of the updates with it.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>

#include <numeric>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/types.h"
#include "emitters/kinds/access_width.h"
#include "emitters/kinds/combiners.h"
#include "emitters/kinds/in_place.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/plan.h"
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

/// How an update meets what is there.
enum class Write { Replace, Plain, Atomic };

struct ScatterPlan {
  InstructionId scatter = 0, indices = 0, updates = 0;
  Write write = Write::Atomic;
  Combiner combiner = Combiner::Custom;
  int64_t vector = 1;               ///< updates that lie together, as do their places; all are written or none
  IndexingMap visits;               ///< (block, thread)[unroll, vector] → index of the updates
  std::vector<IndexingMap> starts;  ///< index of the updates → of the indices, for each scattered dimension
  IndexingMap tests;                ///< (index of the updates…, starts…) → nothing, where the whole window fits
  IndexingMap position;             ///< the same, where it does → position in the output's memory
};

bool contains(const std::vector<int64_t>& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// `starts`, `tests` and `position`.
void place_updates(ScatterPlan& plan, const hlo::Computation& computation) {
  const hlo::Instruction& it = computation[plan.scatter];
  const auto& a = it.as<hlo::ScatterAttributes>();
  const hlo::Shape& indices = computation[plan.indices].shape;
  const hlo::Shape& updates = computation[plan.updates].shape;
  const IndexingMap of_update = indexing::identity_map(updates.dims);
  std::vector<Expr> batch;
  for (size_t i = 0; i < updates.dims.size(); ++i) {
    if (!contains(a.update_window_dims, static_cast<int64_t>(i))) batch.push_back(of_update.results[i]);
  }
  const auto batch_coordinate = [&](int64_t indices_dim) {
    return batch[static_cast<size_t>(indices_dim > a.index_vector_dim ? indices_dim - 1 : indices_dim)];
  };
  IndexingMap map = of_update;
  for (size_t i = 0; i < a.scatter_dims_to_operand_dims.size(); ++i) {
    IndexingMap start = of_update;
    start.results = batch;
    if (a.index_vector_dim < indices.rank()) {
      start.results.insert(start.results.begin() + a.index_vector_dim, Expr::constant(static_cast<int64_t>(i)));
    }
    plan.starts.push_back(std::move(start));
    map.dims.push_back(values_of_index(indices.type));
  }
  plan.tests = map;
  plan.tests.results.clear();
  map.results.clear();
  size_t window = 0;
  for (int64_t d = 0; d < it.shape.rank(); ++d) {
    const auto batching = std::find(a.input_batching_dims.begin(), a.input_batching_dims.end(), d);
    if (batching != a.input_batching_dims.end()) {
      const auto number = static_cast<size_t>(batching - a.input_batching_dims.begin());
      map.results.push_back(batch_coordinate(a.scatter_indices_batching_dims[number]));
      continue;
    }
    const bool inserted = contains(a.inserted_window_dims, d);
    const auto update_dim = inserted ? 0 : static_cast<size_t>(a.update_window_dims[window++]);
    Expr place = inserted ? Expr() : of_update.results[update_dim];
    const auto entry = std::find(a.scatter_dims_to_operand_dims.begin(), a.scatter_dims_to_operand_dims.end(), d);
    if (entry != a.scatter_dims_to_operand_dims.end()) {
      const size_t number = updates.dims.size() + static_cast<size_t>(entry - a.scatter_dims_to_operand_dims.begin());
      const Interval fits{0, it.shape.dim(d) - (inserted ? 1 : updates.dims[update_dim])};
      const Expr start = Expr::dim(static_cast<int>(number));
      plan.tests.constraints.push_back({start, fits});
      map.dims[number] = fits;
      place = place + start;
    }
    map.results.push_back(place);
  }
  plan.position = indexing::simplify(indexing::compose(map, position_map(it.shape)), indexing::UnusedVariables::Keep);
}

/// Whether all floats of a computation hold what those of the type do: then conversions on the way change nothing.
bool keeps_digits(const hlo::Computation& body, hlo::ElementType type) {
  return llvm::all_of(body.instructions, [&](const hlo::Instruction& it) {
    return it.shape.type == type || (it.shape.type == hlo::ElementType::F32 && hlo::byte_width(type) == 2) ||
           it.shape.type == hlo::ElementType::F64;
  });
}

Result<void> choose_write(ScatterPlan& plan, const Fusion& fusion) {
  const hlo::Instruction& it = fusion.computation()[plan.scatter];
  const hlo::Computation& body = fusion.module[it.called[0]];
  const hlo::ElementType type = it.shape.type;
  for (const InstructionId id : body.parameters) {
    if (body[id].shape.type != type) return unsupported("{} combines elements of another type", it.name);
  }
  if (body.root == body.parameters[1] && hlo::byte_width(type) <= 8) {
    plan.write = Write::Replace;  // stores of elements are whole: of several updates of one element any one stays
    return {};
  }
  if (it.as<hlo::ScatterAttributes>().unique_indices) {
    plan.write = Write::Plain;
    return {};
  }
  const std::optional<Combiner> named = named_combiner(fusion.module, it.called[0]);
  const bool small_float = hlo::is_float(type) && hlo::byte_width(type) == 1;
  const bool product_of_pairs = hlo::is_complex(type) && named != Combiner::Add;
  if (named && !small_float && !product_of_pairs && keeps_digits(body, type)) plan.combiner = *named;
  if (hlo::byte_width(type) > 8 && plan.combiner == Combiner::Custom) {
    return unsupported("there is no atomic update of 128 bits, and indices may occur more than once");
  }
  return {};
}

/// How many updates of one vector go to places that lie together, from a multiple of their number on.
int64_t vector_of(const ScatterPlan& plan, const hlo::Computation& computation, const Target& target) {
  const hlo::Instruction& it = computation[plan.scatter];
  const auto& a = it.as<hlo::ScatterAttributes>();
  const hlo::Shape& updates = computation[plan.updates].shape;
  const hlo::ElementType type = it.shape.type;
  const int64_t bytes = hlo::byte_width(type);
  if (updates.rank() == 0 || it.shape.rank() == 0 || hlo::is_complex(type) || bytes > 8) return 1;
  // Other atomics are of single elements: those of a warp should lie together.
  if (plan.write == Write::Atomic && (plan.combiner != Combiner::Add || !has_vector_sums(target, type))) return 1;
  const int64_t inner = it.shape.minor_to_major[0], update_dim = updates.minor_to_major[0];
  if (contains(a.input_batching_dims, inner) || contains(a.inserted_window_dims, inner) ||
      contains(a.scatter_dims_to_operand_dims, inner)) {
    return 1;
  }
  size_t window = 0;
  for (int64_t d = 0; d < inner; ++d) {
    window += !contains(a.input_batching_dims, d) && !contains(a.inserted_window_dims, d);
  }
  if (a.update_window_dims[window] != update_dim) return 1;
  int64_t vector = 1;
  while (2 * vector * bytes <= 16 && std::gcd(updates.dim(update_dim), it.shape.dim(inner)) % (2 * vector) == 0) {
    vector *= 2;
  }
  return vector;
}

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

/// (block, thread)[unroll] → index of a vector's first update.
IndexingMap first_of_vectors(const IndexingMap& visits) {
  IndexingMap map = visits;
  map.ranges.pop_back();
  const auto first = [](const Expr& expr) {
    return indexing::substitute(expr, [](indexing::ExprKind kind, int number) {
      if (kind == indexing::ExprKind::Range) return number == 1 ? Expr::constant(0) : Expr::range(number);
      return Expr::dim(number);
    });
  };
  for (Expr& result : map.results) result = first(result);
  for (indexing::Constraint& constraint : map.constraints) constraint.expr = first(constraint.expr);
  return indexing::simplify(map, indexing::UnusedVariables::Keep);
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

/// What the result holds before, the updates and the places that they change move; atomic updates take longer where
/// they have no loops or vectors.
double microseconds_of(const ScatterPlan& plan, const hlo::Computation& computation, const Preparation& preparation,
                       const Target& target) {
  const hlo::Instruction& it = computation[plan.scatter];
  const hlo::ElementType type = it.shape.type;
  const int bytes = hlo::byte_width(type);
  const auto all = static_cast<double>(it.shape.element_count()) * bytes;
  const auto updates = static_cast<double>(computation[plan.updates].shape.element_count());
  const hlo::Shape& indices = computation[plan.indices].shape;
  const double index_bytes = static_cast<double>(indices.element_count()) * hlo::byte_width(indices.type);
  const double prepared = preparation.kind == Preparation::Kind::Copy ? 2 * all : all;
  const double changed = (plan.write == Write::Atomic ? 2 : 1) * std::min(all, updates * bytes);
  const double bandwidth = 1e-6 * target.rates.copy_bandwidth;
  double microseconds = (updates * bytes + changed + index_bytes) / bandwidth;
  if (plan.write == Write::Atomic)
    microseconds = std::max(microseconds, 1e6 * updates / atomics_rate(target, plan.combiner, type, plan.vector));
  // Nothing overlaps with a copy or a fill.
  return 2e6 * target.rates.kernel + prepared / bandwidth + microseconds;
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
  if (root.opcode != hlo::Opcode::Scatter) return unsupported("the root is no scatter");
  if (root.operands.size() != 3) return unsupported("{} scatters into several arrays", root.name);
  ScatterPlan made;
  made.scatter = computation.root;
  made.indices = root.operands[1];
  made.updates = root.operands[2];
  for (const InstructionId id : {made.indices, made.updates}) {
    if (computation[id].opcode == hlo::Opcode::GetTupleElement) {
      return unsupported("{} is an element of a tuple", computation[id].name);
    }
  }
  Plan plan;
  STRATA_TRY(const Preparation preparation, preparation_in_place(computation, root.operands[0], root.shape));
  STRATA_CHECK(choose_write(made, fusion));
  place_updates(made, computation);
  const hlo::Shape& updates = computation[made.updates].shape;
  const int64_t elements = updates.element_count();
  AccessWidth width = choose_access_width(fusion, elements);
  made.vector = vector_of(made, computation, fusion.target);
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
  plan.decision.microseconds = microseconds_of(made, computation, preparation, fusion.target);
  plan.emit = [fusion, made, decision = plan.decision](mlir::ModuleOp target, const std::string& name) {
    return emit_scatter(fusion, made, decision, target, name);
  };
  return plan;
}

}  // namespace strata::emitters
