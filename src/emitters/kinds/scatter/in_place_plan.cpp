#include "emitters/kinds/scatter/in_place_plan.h"

#include <numeric>

#include "emitters/kinds/combiners.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using indexing::Expr;
using indexing::IndexingMap;
using indexing::Interval;

constexpr double kSectorBytes = 32;
constexpr double kCyclesOfOperation = 4;  ///< of Rates::dependent_operation

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

/// How many updates beside each other go to places beside each other: the innermost extent of a window, or 1.
int64_t run_of(const ScatterPlan& plan, const hlo::Computation& computation) {
  const hlo::Instruction& it = computation[plan.scatter];
  const auto& a = it.as<hlo::ScatterAttributes>();
  const hlo::Shape& updates = computation[plan.updates].shape;
  if (updates.rank() == 0 || it.shape.rank() == 0) return 1;
  const int64_t inner = it.shape.minor_to_major[0], update_dim = updates.minor_to_major[0];
  if (contains(a.input_batching_dims, inner) || contains(a.inserted_window_dims, inner)) return 1;
  size_t window = 0;
  for (int64_t d = 0; d < inner; ++d) {
    window += !contains(a.input_batching_dims, d) && !contains(a.inserted_window_dims, d);
  }
  if (a.update_window_dims[window] != update_dim) return 1;
  // A window that has the whole dimension fits only where it begins at 0.
  const bool starts = contains(a.scatter_dims_to_operand_dims, inner);
  return !starts || updates.dim(update_dim) == it.shape.dim(inner) ? updates.dim(update_dim) : 1;
}

/// How many updates of one vector go to places that lie together, from a multiple of their number on.
int64_t vector_of(const ScatterPlan& plan, const hlo::Computation& computation, const Target& target) {
  const hlo::Instruction& it = computation[plan.scatter];
  const hlo::ElementType type = it.shape.type;
  const int64_t bytes = hlo::byte_width(type), run = run_of(plan, computation);
  if (run == 1 || hlo::is_complex(type) || bytes > 8) return 1;
  // Other atomics are of single elements: those of a warp should lie together.
  if (plan.write == Write::Atomic && (plan.combiner != Combiner::Add || !has_vector_sums(target, type))) return 1;
  int64_t vector = 1;
  while (2 * vector * bytes <= 16 && std::gcd(run, it.shape.dim(it.shape.minor_to_major[0])) % (2 * vector) == 0) {
    vector *= 2;
  }
  return vector;
}

}  // namespace

Result<void> check_scatter(const hlo::Computation& computation, std::initializer_list<size_t> read) {
  const hlo::Instruction& root = computation.root_instruction();
  if (root.opcode != hlo::Opcode::Scatter) return unsupported("the root is no scatter");
  if (root.operands.size() != 3) return unsupported("{} scatters into several arrays", root.name);
  for (const size_t number : read) {
    const hlo::Instruction& operand = computation[root.operands[number]];
    if (operand.opcode == hlo::Opcode::GetTupleElement) return unsupported("{} is an element of a tuple", operand.name);
  }
  return {};
}

Result<ScatterPlan> plan_in_place(const Fusion& fusion) {
  const hlo::Computation& computation = fusion.computation();
  const hlo::Instruction& root = computation.root_instruction();
  STRATA_CHECK(check_scatter(computation, {1, 2}));
  ScatterPlan made;
  made.scatter = computation.root;
  made.indices = root.operands[1];
  made.updates = root.operands[2];
  STRATA_CHECK(choose_write(made, fusion));
  place_updates(made, computation);
  made.vector = vector_of(made, computation, fusion.target);
  return made;
}

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

double copy_microseconds(const Target& target, double bytes) {
  // Measured, H200: scatters into copies of 3 to 50 MB take 2 to 5 µs more than both kernels and the bytes.
  constexpr double kNode = 3;
  return kNode + 2e6 * bytes / target.rates.copy_bandwidth;
}

double atomic_microseconds(const ScatterPlan& plan, const hlo::Computation& computation, const Target& target) {
  if (plan.write != Write::Atomic) return 0;
  const hlo::Instruction& it = computation[plan.scatter];
  const hlo::ElementType type = it.shape.type;
  const int bytes = hlo::byte_width(type);
  const auto all = static_cast<double>(it.shape.element_count()) * bytes;
  const auto updates = static_cast<double>(computation[plan.updates].shape.element_count());
  const double by_rate = updates / atomics_rate(target, plan.combiner, type, plan.vector);
  // A sector that a warp updates takes as long for one word as for all: Rates::atomics was measured with full ones,
  // of words of 4 bytes, of which narrow elements share one.
  const double of_sector = std::min(1.0, static_cast<double>(run_of(plan, computation) * bytes) / kSectorBytes);
  const double words = updates * std::min(1.0, bytes / 4.0);
  const double by_sectors = words / (target.rates.atomics * of_sector);
  // Updates of one sector come one after the other, in a cycle each at best.
  const double sectors = std::max(all / kSectorBytes, 1.0);
  const double of_each = updates / static_cast<double>(plan.vector) / sectors;
  const double in_turn = of_each * target.rates.dependent_operation / kCyclesOfOperation;
  return 1e6 * std::max({by_rate, by_sectors, in_turn});
}

double microseconds_in_place(const ScatterPlan& plan, const hlo::Computation& computation,
                             const Preparation& preparation, const Target& target) {
  const hlo::Instruction& it = computation[plan.scatter];
  const hlo::ElementType type = it.shape.type;
  const int bytes = hlo::byte_width(type);
  const auto all = static_cast<double>(it.shape.element_count()) * bytes;
  const auto updates = static_cast<double>(computation[plan.updates].shape.element_count());
  const hlo::Shape& indices = computation[plan.indices].shape;
  const double index_bytes = static_cast<double>(indices.element_count()) * hlo::byte_width(indices.type);
  const double changed = (plan.write == Write::Atomic ? 2 : 1) * std::min(all, updates * bytes);
  const double bandwidth = 1e-6 * target.rates.copy_bandwidth;
  const bool copies = preparation.kind == Preparation::Kind::Copy;
  const double prepared = copies ? copy_microseconds(target, all) : all / bandwidth;
  double microseconds = (updates * bytes + changed + index_bytes) / bandwidth;
  microseconds = std::max(microseconds, atomic_microseconds(plan, computation, target));
  // Nothing overlaps with a copy or a fill.
  return 2e6 * target.rates.kernel + prepared + microseconds;
}

}  // namespace strata::emitters
