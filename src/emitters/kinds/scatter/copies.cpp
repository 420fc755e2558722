// Scatters of many updates into few elements: each thread combines its updates with a copy of the output of its own in
// shared memory, and a block's copies are added up before they meet the output. So nothing waits where many updates go
// to one element, as those of a histogram or of a table of few rows do. Where that is too much memory, the threads of a
// block share one copy and meet there by atomics, which wait less than those of device memory.
#include <fmt/format.h>
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>

#include <algorithm>

#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/types.h"
#include "emitters/kinds/code.h"
#include "emitters/kinds/combiners.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/scatter/in_place_plan.h"
#include "indexing/memory_access.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
using Builder = mlir::ImplicitLocOpBuilder;
using arith::CmpIPredicate;
using indexing::Expr;
using indexing::IndexingMap;
using mlir::Value;
using mlir::ValueRange;

constexpr int64_t kTogether = 8;  ///< vectors of a thread whose loads are on their way at once

struct CopiesPlan {
  ScatterPlan in_place;
  int64_t elements = 0;  ///< of the output
  int64_t vectors = 0;   ///< of updates
  int64_t threads = 32;  ///< of a block
  bool shared = false;   ///< whether these share one copy; else each has its own
  int64_t blocks = 1;
  int64_t repetitions = 1;  ///< of a thread, kTogether vectors each
};

/// What the copies take: the updates of a thread, one after the other, and going through all copies twice.
double microseconds_of(const CopiesPlan& plan, int64_t copy_bytes, double bytes, bool is_float, const Target& target) {
  // That depend on each other: load, combine and store of shared memory; a compare-and-swap and its check; none.
  const double operations = !plan.shared ? 12 : is_float ? 30 : 1;
  const Rates& rates = target.rates;
  const auto of_thread = static_cast<double>(plan.repetitions * kTogether);
  const double chain = of_thread * (static_cast<double>(plan.in_place.vector) * operations * rates.dependent_operation +
                                    rates.load_latency / kTogether);
  const int64_t rounds = indexing::ceil_div(plan.blocks, int64_t{target.multiprocessors});
  const int64_t copies_of_block = plan.shared ? 1 : plan.threads;
  const auto copies = static_cast<double>(2 * copy_bytes * copies_of_block * rounds);
  const double atomics = static_cast<double>(plan.blocks * plan.elements) / rates.atomics;
  const double in_turn = static_cast<double>(plan.blocks) * rates.dependent_operation;
  // Atomics of a warp in shared memory wait for banks, and those of floats are loops of compare-and-swap.
  constexpr double kIntegerCycles = 8, kFloatCycles = 32, kCycles = 4;  // the last of Rates::dependent_operation
  const double cycles = is_float ? kFloatCycles : kIntegerCycles;
  const auto updates = static_cast<double>(plan.vectors * plan.in_place.vector);
  const auto busy = static_cast<double>(std::min<int64_t>(plan.blocks, target.multiprocessors));
  const double meeting =
      plan.shared ? updates / indexing::kWarpSize / busy * cycles * rates.dependent_operation / kCycles : 0;
  const double reading = bytes / std::min(rates.memory_bandwidth, busy * rates.multiprocessor_bandwidth);
  // Threads that wait for each other's atomics read nothing meanwhile.
  const double together = plan.shared ? chain + std::max(reading, meeting) : std::max(chain, reading);
  return 1e6 * (2 * rates.kernel + together + copies / rates.shared_bandwidth + std::max(atomics, in_turn));
}

/// Whether shared memory has one instruction for it, or few for sums of f32, in whose type narrow floats are combined.
bool has_shared_atomics(Combiner combiner, hlo::ElementType type) {
  const hlo::ElementType wide = wide_type(type);
  if (hlo::is_float(type)) return combiner == Combiner::Add && wide == hlo::ElementType::F32;
  return combiner != Combiner::Mul && hlo::bit_width(wide) == 32;
}

/// As many threads as take the least time by the model.
std::optional<std::pair<CopiesPlan, double>> choose_copies(const ScatterPlan& in_place, const Fusion& fusion) {
  constexpr int64_t kMostThreads = 256;
  const hlo::Computation& computation = fusion.computation();
  const hlo::Shape& shape = computation[in_place.scatter].shape;
  const hlo::Shape& updates = computation[in_place.updates].shape;
  const hlo::Shape& indices = computation[in_place.indices].shape;
  const Target& target = fusion.target;
  const int64_t copy_bytes = shape.element_count() * hlo::byte_width(wide_type(shape.type));
  const auto bytes = static_cast<double>(updates.element_count() * hlo::byte_width(updates.type) +
                                         indices.element_count() * hlo::byte_width(indices.type));
  std::optional<std::pair<CopiesPlan, double>> best;
  const bool is_float = hlo::is_float(shape.type);
  const auto consider = [&](int64_t threads, bool shared) {
    const int64_t block_bytes = shared ? copy_bytes : copy_bytes * threads;
    if (block_bytes > target.shared_memory) return;
    for (int64_t each = 1; each <= 8; each *= 2) {  // blocks of a multiprocessor
      if (each * (block_bytes + target.reserved_shared_memory) > target.multiprocessor_shared_memory) break;
      if (each * threads > target.threads_per_multiprocessor) break;
      CopiesPlan plan{in_place, shape.element_count(), updates.element_count() / in_place.vector};
      plan.threads = threads;
      plan.shared = shared;
      const int64_t most = indexing::ceil_div(plan.vectors, threads * kTogether);
      plan.blocks = std::min(most, each * target.multiprocessors);
      plan.repetitions = indexing::ceil_div(most, plan.blocks);
      const double time = microseconds_of(plan, copy_bytes, bytes, is_float, target);
      if (!best || time < best->second) best = {plan, time};
    }
  };
  for (int64_t threads = indexing::kWarpSize; threads <= kMostThreads; threads *= 2) consider(threads, false);
  if (has_shared_atomics(in_place.combiner, shape.type)) {
    for (int64_t threads = 256; threads <= 1024; threads *= 2) consider(threads, true);
  }
  return best;
}

class CopiesEmitter {
 public:
  CopiesEmitter(FusionFunctions& functions, const CopiesPlan& plan, mlir::func::FuncOp combine, Kernel& kernel)
      : functions_(functions),
        plan_(plan),
        type_(functions.computation()[plan.in_place.scatter].shape.type),
        combine_(combine),
        kernel_(kernel),
        builder_(kernel.builder()) {}

  Result<void> run() {
    const mlir::Type element = element_type(builder_.getContext(), wide_type(type_));
    llvm::SmallVector<int64_t> extents{plan_.elements};
    if (!plan_.shared) extents.push_back(plan_.threads);
    const auto type = mlir::RankedTensorType::get(
        extents, element, SharedTileAttr::get(builder_.getContext(), /*padding=*/0, /*chunk=*/0));
    const std::optional<Value> neutral = neutral_value(builder_, plan_.in_place.combiner, type_);
    if (!neutral) return invalid("internal error: a combiner without a neutral value");
    nothing_ = *neutral;
    Value tile = builder_.create<AllocateSharedOp>(type);
    tile = cleared(tile);
    IndexingMap repetitions;
    repetitions.ranges = {indexing::below(plan_.repetitions)};
    repetitions.results = {Expr::range(0)};
    tile = create_loop(builder_, repetitions, {}, tile, std::nullopt,
                       [&](Builder& inside, ValueRange, ValueRange at, ValueRange before) {
                         return Values{add_updates(inside, at[0], before[0])};
                       })
               .getResult(0);
    if (error_) return tl::unexpected(std::move(*error_));
    tile = builder_.create<SyncThreadsOp>(mlir::TypeRange(type), tile).getResult(0);
    Value output = kernel_.outputs()[0];
    if (plan_.shared) {
      output = add_shared_copy(tile, output);
    } else {
      for (int64_t first = 0; first < plan_.elements; first += plan_.threads) output = add_copies(first, tile, output);
    }
    kernel_.finish(output);
    return {};
  }

 private:
  /// The tile without anything in it: each thread clears its copy, or its elements of the one that all share.
  Value cleared(Value tile) {
    IndexingMap elements;
    if (plan_.shared) {
      elements = elements_of_thread(/*rotated=*/false);
    } else {
      elements.dims = {indexing::below(plan_.blocks), indexing::below(plan_.threads)};
      elements.ranges = {indexing::below(plan_.elements)};
      elements.results = {Expr::range(0)};
    }
    tile = create_loop(builder_, elements, kernel_.place(), tile, std::nullopt,
                       [&](Builder& inside, ValueRange, ValueRange at, ValueRange before) {
                         Values place{at[0]};
                         if (!plan_.shared) place.push_back(kernel_.thread());
                         return Values{inside.create<mlir::tensor::InsertOp>(nothing_, before[0], place)};
                       })
               .getResult(0);
    return plan_.shared ? builder_.create<SyncThreadsOp>(mlir::TypeRange(tile.getType()), tile).getResult(0) : tile;
  }

  /// (block, thread) → the elements of a copy that all threads share which a thread clears or adds up; rotated, blocks
  /// begin at different ones, so that they do not all meet at the same.
  IndexingMap elements_of_thread(bool rotated) const {
    IndexingMap map;
    map.dims = {indexing::below(plan_.blocks), indexing::below(plan_.threads)};
    map.ranges = {indexing::below(indexing::ceil_div(plan_.elements, plan_.threads))};
    const Expr number = Expr::range(0) * plan_.threads + Expr::dim(1);
    const int64_t step = indexing::ceil_div(plan_.elements, plan_.blocks);
    map.results = {rotated ? indexing::mod(number + Expr::dim(0) * step, plan_.elements) : number};
    map.constraints = {{number, indexing::below(plan_.elements)}};
    return indexing::simplify(map, indexing::UnusedVariables::Keep);
  }

  /// The output with what the block's copy has.
  Value add_shared_copy(Value tile, Value output) {
    return create_loop(
               builder_, elements_of_thread(/*rotated=*/true), kernel_.place(), output, std::nullopt,
               [&](Builder& inside, ValueRange, ValueRange at, ValueRange before) {
                 const Value sum = inside.create<mlir::tensor::ExtractOp>(tile, at[0]);
                 const Value update = narrowed(inside, sum, type_);
                 return Values{
                     inside.create<AtomicRmwOp>(before[0].getType(), plan_.in_place.combiner, update, before[0], at[0])
                         .getResult()};
               })
        .getResult(0);
  }

  /// Vectors of updates, of which the thread reads all before it combines the first.
  Value add_updates(Builder& builder, Value repetition, Value tile) {
    struct Vector {
      Value number, exists, updates;
      Values starts;
    };
    std::vector<Vector> vectors;
    for (int64_t k = 0; k < kTogether; ++k) {
      Vector one;
      IndexingMap map;
      map.dims = {indexing::below(plan_.blocks), indexing::below(plan_.threads), indexing::below(plan_.repetitions)};
      map.results = {((Expr::dim(2) * kTogether + k) * plan_.blocks + Expr::dim(0)) * plan_.threads + Expr::dim(1)};
      const Value number = apply_map(builder, map, {{kernel_.block(), kernel_.thread(), repetition}, {}, {}})[0];
      one.exists = compare(builder, CmpIPredicate::slt, number, index_constant(builder, plan_.vectors));
      // Past the end the first one is read again: no load waits for a branch.
      one.number = builder.create<arith::SelectOp>(one.exists, number, index_constant(builder, 0));
      one.updates = read_updates(builder, one.number);
      if (error_) return tile;
      const Values first = update_index(builder, one.number, index_constant(builder, 0));
      for (const IndexingMap& start : plan_.in_place.starts) {
        const Values place = apply_map(builder, start, {Values(first), {}, {}});
        auto integer = functions_.read(builder, plan_.in_place.indices, kernel_.inputs(), place);
        if (!integer) {
          error_ = std::move(integer).error();
          return tile;
        }
        const hlo::ElementType type = functions_.computation()[plan_.in_place.indices].shape.type;
        one.starts.push_back(index_of(builder, (*integer)[0], type));
      }
      Values tested(first);
      llvm::append_range(tested, one.starts);
      const Value fits =
          constraints_hold(builder, plan_.in_place.tests, plan_.in_place.tests.constraints, {tested, {}, {}});
      one.exists = builder.create<arith::AndIOp>(one.exists, fits);
      vectors.push_back(std::move(one));
    }
    for (const Vector& one : vectors) {
      tile = if_holds(builder, one.exists, tile, [&](Builder& inside) {
        Value next = tile;
        for (int64_t v = 0; v < plan_.in_place.vector; ++v) {
          Values index = update_index(inside, one.number, index_constant(inside, v));
          llvm::append_range(index, one.starts);
          const Value position = apply_map(inside, plan_.in_place.position, {index, {}, {}})[0];
          if (plan_.shared) {
            const Value wide = widened(inside, element_of(inside, one.updates, v), type_);
            next =
                inside.create<AtomicRmwOp>(next.getType(), plan_.in_place.combiner, wide, next, position).getResult();
            continue;
          }
          const Values at{position, kernel_.thread()};
          const Value before = inside.create<mlir::tensor::ExtractOp>(next, at);
          const Value after = combined(inside, before, widened(inside, element_of(inside, one.updates, v), type_));
          next = inside.create<mlir::tensor::InsertOp>(after, next, at);
        }
        return Values{next};
      })[0];
    }
    return tile;
  }

  Value element_of(Builder& builder, Value updates, int64_t v) const {
    if (plan_.in_place.vector == 1) return updates;
    return builder.create<mlir::vector::ExtractOp>(updates, v);
  }

  /// The index of element v of a vector of updates.
  Values update_index(Builder& builder, Value number, Value v) {
    return apply_map(builder, of_vector(/*is_range=*/false), {{number, v}, {}, {}});
  }

  IndexingMap of_vector(bool is_range) const {
    const hlo::Shape& shape = functions_.computation()[plan_.in_place.updates].shape;
    IndexingMap map;
    map.dims = {indexing::below(plan_.vectors)};
    if (is_range)
      map.ranges = {indexing::below(plan_.in_place.vector)};
    else
      map.dims.push_back(indexing::below(plan_.in_place.vector));
    const Expr within = is_range ? Expr::range(0) : Expr::dim(1);
    map.results = {Expr::dim(0) * plan_.in_place.vector + within};
    return indexing::simplify(indexing::compose(map, index_at_position(shape)), indexing::UnusedVariables::Keep);
  }

  Value read_updates(Builder& builder, Value number) {
    const auto one = [&](Builder& inside, ValueRange index) -> Value {
      auto update = functions_.read(inside, plan_.in_place.updates, kernel_.inputs(), index);
      if (update) return (*update)[0];
      error_ = std::move(update).error();
      return {};
    };
    if (plan_.in_place.vector == 1) return one(builder, update_index(builder, number, index_constant(builder, 0)));
    const auto all = mlir::VectorType::get({plan_.in_place.vector}, element_type(builder.getContext(), type_));
    const Value none = builder.create<arith::ConstantOp>(llvm::cast<mlir::TypedAttr>(builder.getZeroAttr(all)));
    const IndexingMap map = of_vector(/*is_range=*/true);
    return create_loop(builder, map, number, none, 0,
                       [&](Builder& inside, ValueRange v, ValueRange index, ValueRange before) {
                         const Value update = one(inside, index);
                         if (!update) return Values(before);
                         return Values{inside.create<mlir::vector::InsertOp>(update, before[0], v[0])};
                       })
        .getResult(0);
  }

  Value combined(Builder& builder, Value a, Value b) {
    return builder.create<PureCallOp>(combine_.getResultTypes(), combine_.getName(), ValueRange{a, b}).getResult(0);
  }

  /// The output with what the copies have of elements from `first` on, one a thread. Threads begin at different copies,
  /// as these lie beside each other in different banks.
  Value add_copies(int64_t first, Value tile, Value output) {
    const Value element = builder_.create<arith::AddIOp>(kernel_.thread(), index_constant(builder_, first));
    Value exists;
    if (first + plan_.threads > plan_.elements)
      exists = compare(builder_, CmpIPredicate::slt, element, index_constant(builder_, plan_.elements));
    return if_holds(builder_, exists, output, [&](Builder& inside) {
      IndexingMap copies;
      copies.dims = {indexing::below(plan_.threads)};
      copies.ranges = {indexing::below(plan_.threads)};
      copies.results = {mod(Expr::range(0) + Expr::dim(0), plan_.threads)};
      const Value sum =
          create_loop(inside, copies, kernel_.thread(), nothing_, std::nullopt,
                      [&](Builder& in, ValueRange, ValueRange copy, ValueRange before) {
                        const Value more = in.create<mlir::tensor::ExtractOp>(tile, ValueRange{element, copy[0]});
                        return Values{combined(in, before[0], more)};
                      })
              .getResult(0);
      const Value update = narrowed(inside, sum, type_);
      return Values{
          inside.create<AtomicRmwOp>(output.getType(), plan_.in_place.combiner, update, output, element).getResult()};
    })[0];
  }

  FusionFunctions& functions_;
  const CopiesPlan& plan_;
  const hlo::ElementType type_;
  mlir::func::FuncOp combine_;
  Kernel& kernel_;
  Builder& builder_;
  Value nothing_;
  std::optional<Error> error_;
};

}  // namespace

Result<Plan> plan_scatter_copies(const Fusion& fusion) {
  const hlo::Computation& computation = fusion.computation();
  const hlo::Instruction& root = computation.root_instruction();
  STRATA_TRY(const ScatterPlan in_place, plan_in_place(fusion));
  STRATA_TRY(const Preparation preparation, preparation_in_place(computation, root.operands[0], root.shape));
  if (in_place.write != Write::Atomic || in_place.combiner == Combiner::Custom)
    return unsupported("updates meet the output without atomics, or by loops");
  if (hlo::is_complex(root.shape.type) || root.shape.type == hlo::ElementType::Pred)
    return unsupported("elements of {}", hlo::name(root.shape.type));
  const hlo::Shape& updates = computation[in_place.updates].shape;
  if (updates.element_count() <= 4 * root.shape.element_count())
    return unsupported("{} updates of {} elements are few", updates.element_count(), root.shape.element_count());
  const auto chosen = choose_copies(in_place, fusion);
  if (!chosen || in_place.position.known_empty)
    return unsupported(
        "a copy for each thread of a warp, or for all threads of a block, does not fit into shared memory");
  const double instead = microseconds_in_place(in_place, computation, preparation, fusion.target);
  const CopiesPlan& copies = chosen->first;
  const auto bytes = static_cast<double>(root.shape.element_count() * hlo::byte_width(root.shape.type));
  const bool copies_operand = preparation.kind == Preparation::Kind::Copy;
  const double time = chosen->second + (copies_operand ? copy_microseconds(fusion.target, bytes) : 0);
  if (time >= instead) return unsupported("{:.0f} µs by copies, {:.0f} µs in place, by a model", time, instead);
  Plan plan;
  Decision& decision = plan.decision;
  decision.emitter = "scatter copies";
  decision.reason = copies.shared ? "many updates go to few elements: each block has a copy of these"
                                  : "many updates go to few elements: each thread has a copy of these";
  decision.launch().threads = static_cast<int>(copies.threads);
  decision.launch().blocks = copies.blocks;
  decision.launch().shared_bytes =
      copies.elements * (copies.shared ? 1 : copies.threads) * hlo::byte_width(wide_type(root.shape.type));
  decision.details = {{"updates", std::to_string(updates.element_count())},
                      {"combines", stringifyCombiner(in_place.combiner).str()},
                      {"vector", std::to_string(in_place.vector)},
                      {"costs", fmt::format("{:.0f} µs, {:.0f} µs in place, by a model", time, instead)}};
  decision.preparations = {preparation};
  decision.heroes = {in_place.scatter};
  decision.microseconds = time;
  plan.emit = [fusion, copies, decision](mlir::ModuleOp target, const std::string& name) -> Result<void> {
    indexing::PartitionOptions options;
    options.heroes = decision.heroes;
    STRATA_TRY(FusionFunctions functions, FusionFunctions::create(target, fusion.module, fusion.id, options));
    const hlo::ComputationId called = functions.computation()[copies.in_place.scatter].called[0];
    STRATA_TRY(const mlir::func::FuncOp combine, functions.scalar_function(called, /*wide=*/true));
    Kernel kernel(functions, name, decision);
    return CopiesEmitter(functions, copies, combine, kernel).run();
  };
  return plan;
}

}  // namespace strata::emitters
