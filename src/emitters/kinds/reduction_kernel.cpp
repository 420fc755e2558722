#include "emitters/kinds/reduction_kernel.h"

#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/types.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using indexing::IndexingMap;
using mlir::Value;
using mlir::ValueRange;

using Builder = mlir::ImplicitLocOpBuilder;

/// A hero while its stage is emitted.
struct HeroState {
  const ReductionHero* hero = nullptr;
  Accumulation accumulation;
  std::vector<Values> slots;  ///< a state for each slot, later its results
};

class ReductionEmitter {
 public:
  ReductionEmitter(FusionFunctions& functions, const ReductionPlan& plan, const std::string& name,
                   const Decision& decision)
      : functions_(functions),
        plan_(plan),
        tiled_(plan.tiled),
        kernel_(functions, name, decision),
        builder_(kernel_.builder()),
        outputs_(kernel_.outputs()) {}

  Result<void> run() {
    for (int stage = 0; stage < plan_.heroes.stages; ++stage) {
      STRATA_TRY(std::vector<HeroState> states, start(stage));
      read_elements(stage, states);
      if (error_) return tl::unexpected(std::move(*error_));
      for (HeroState& state : states) combine_lanes(state);
      if (tiled_.parts() > 1) combine_parts(states);
      STRATA_CHECK(finish(stage, states));
    }
    std::vector<HeroState> none;
    const bool last = llvm::any_of(plan_.outputs.writes, [&](const ReductionWrite& write) {
      return write.elementwise && write.stage == plan_.heroes.stages;
    });
    if (last) read_elements(plan_.heroes.stages, none);
    if (error_) return tl::unexpected(std::move(*error_));
    kernel_.finish(outputs_);
    return {};
  }

 private:
  Result<std::vector<HeroState>> start(int stage) {
    std::vector<HeroState> states;
    for (const ReductionHero& hero : plan_.heroes.heroes) {
      if (hero.stage != stage) continue;
      STRATA_TRY(Accumulation accumulation, Accumulation::create(functions_, hero.id));
      std::vector<Values> slots(static_cast<size_t>(tiled_.slots()), accumulation.empty(builder_));
      states.push_back({&hero, std::move(accumulation), std::move(slots)});
    }
    return states;
  }

  // --- loops over the tile ---

  /// The heroes that are known, for an output of the block.
  HeroValues known_heroes(Builder& builder, Value output) {
    HeroValues values;
    for (const auto& [id, tiles] : broadcast_) {
      for (const Value tile : tiles) values[id].push_back(builder.create<mlir::tensor::ExtractOp>(tile, output));
    }
    values.insert(everywhere_.begin(), everywhere_.end());
    return values;
  }

  /// The place of an element in the tiles of staged inputs.
  Values kept_place(Builder& builder, ValueRange results) const {
    IndexingMap map;
    map.dims = indexing::positions(tiled_.tiling.shape);
    std::vector<indexing::Expr> index;
    for (size_t i = 0; i < tiled_.rank(); ++i) index.push_back(indexing::Expr::dim(static_cast<int>(i)));
    map.results = {tiled_.place_in_shared(index)};
    const Value within = apply_map(builder, map, {Values(results.take_front(tiled_.rank())), {}, {}})[0];
    const Value output = results[tiled_.rank()];
    return tiled_.combines_lanes() ? Values{output, within} : Values{within, output};
  }

  void allocate_kept() {
    for (const StagedInput& input : plan_.heroes.staged) {
      std::vector<int64_t> shape{tiled_.outputs(), tiled_.most_in_shared()};
      if (!tiled_.combines_lanes()) std::swap(shape[0], shape[1]);
      const mlir::Type type = element_type(builder_.getContext(), functions_.computation()[input.id].shape.type);
      kept_.push_back(builder_.create<AllocateSharedOp>(shared_type({shape, 4, 0, 0}, type)));
    }
  }

  /// Staged inputs at an element: read from memory the first time, which puts them in the tiles, then from there; where
  /// they are not `in_shared`, from memory each time.
  Values kept_values(Builder& builder, int stage, bool in_shared, ValueRange results, HeroValues& heroes,
                     ValueRange tiles) {
    Values next(tiles);
    if (next.empty()) return next;
    const Values at = in_shared ? kept_place(builder, results) : Values();
    for (size_t i = 0; i < next.size(); ++i) {
      const StagedInput& input = plan_.heroes.staged[i];
      if (stage > 0 && in_shared) {
        heroes[input.id] = {builder.create<mlir::tensor::ExtractOp>(next[i], at)};
        continue;
      }
      const Values index = apply_map(builder, input.index, {Values(results.take_front(tiled_.rank())), {}, {}});
      auto read = functions_.read(builder, functions_.computation()[input.id].operands[0], kernel_.inputs(), index);
      assert(read && "a parameter");
      heroes[input.id] = *read;
      if (in_shared) next[i] = builder.create<mlir::tensor::InsertOp>((*read)[0], next[i], at);
    }
    return next;
  }

  /// Accumulates the heroes of a stage and writes the outputs of its loop.
  void read_elements(int stage, std::vector<HeroState>& states) {
    if (stage == 0) allocate_kept();
    for (const ElementLoop& loop : tiled_.loops()) read_elements(stage, states, loop);
  }

  void read_elements(int stage, std::vector<HeroState>& states, const ElementLoop& elements) {
    const IndexingMap& points = elements.points;
    // One output a thread: the heroes' values do not change in the loop.
    std::optional<HeroValues> invariant;
    if (tiled_.slots() == 1) {
      IndexingMap output = points;
      output.results = {points.results[tiled_.rank()]};
      output.ranges.clear();
      output.constraints.clear();
      invariant = known_heroes(builder_, apply_map(builder_, output, {kernel_.place(), {}, {}})[0]);
    }
    Values inits = outputs_;
    if (stage == 0) llvm::append_range(inits, kept_);
    for (const HeroState& state : states) llvm::append_range(inits, packed(state));
    auto loop = create_loop(
        builder_, points, kernel_.place(), inits, tiled_.vector(),
        [&](Builder& inside, ValueRange, ValueRange results, ValueRange carried) -> Values {
          const ValueRange groups = results.take_front(tiled_.rank());
          HeroValues heroes = invariant ? *invariant : known_heroes(inside, results[tiled_.rank()]);
          Values next(carried);
          Values outputs(carried.take_front(outputs_.size()));
          const ValueRange tiles = stage == 0 ? carried.slice(outputs.size(), kept_.size()) : ValueRange(kept_);
          const Values kept = kept_values(inside, stage, elements.in_shared, results, heroes, tiles);
          if (stage == 0) std::copy(kept.begin(), kept.end(), next.begin() + outputs.size());
          for (const ReductionWrite& write : plan_.outputs.writes) {
            if (write.elementwise && write.stage == stage) outputs = written(inside, write, groups, heroes, outputs);
          }
          std::copy(outputs.begin(), outputs.end(), next.begin());
          size_t place = outputs.size() + (stage == 0 ? kept.size() : 0);
          for (const HeroState& state : states) {
            const size_t size = state.accumulation.state_size();
            const Values after = accumulate(inside, state, groups, results.back(), heroes, carried.slice(place, size));
            std::copy(after.begin(), after.end(), next.begin() + place);
            place += size;
          }
          return next;
        });
    if (kept_.empty()) loop->setAttr("strata.within", builder_.getDenseI64ArrayAttr(safe_results()));
    const ValueRange results = loop.getResults();
    outputs_ = Values(results.take_front(outputs_.size()));
    size_t place = outputs_.size();
    if (stage == 0) {
      kept_ = Values(results.slice(place, kept_.size()));
      place += kept_.size();
    }
    for (HeroState& state : states) {
      const size_t size = state.accumulation.state_size();
      unpack(state, results.slice(place, size));
      place += size;
    }
  }

  /// The sizes that results of the map of a loop over elements are below: any index of the array, output and slot may
  /// be read.
  std::vector<int64_t> safe_results() const {
    std::vector<int64_t> sizes = tiled_.tiling.shape;
    sizes.push_back(tiled_.outputs());
    sizes.push_back(tiled_.slots());
    return sizes;
  }

  Values written(Builder& builder, const ReductionWrite& write, ValueRange groups, const HeroValues& heroes,
                 const Values& outputs) {
    const Values indices = apply_map(builder, write.index, {Values(groups), {}, {}});
    const Values injected = functions_.injected(write.function, heroes);
    return write_outputs(builder, functions_, write.function, kernel_.inputs(), indices, injected, outputs);
  }

  /// The states of all slots after one more element of each operand, which goes into one of them.
  Values accumulate(Builder& builder, const HeroState& state, ValueRange groups, Value slot, const HeroValues& heroes,
                    ValueRange states) {
    const hlo::Instruction& it = functions_.computation()[state.hero->id];
    const size_t count = state.accumulation.types().size();
    const Values index = apply_map(builder, state.hero->operand, {Values(groups), {}, {}});
    Values elements;
    for (size_t i = 0; i < count; ++i) {
      auto read = functions_.read(builder, it.operands[i], kernel_.inputs(), index, heroes);
      if (!read) {
        error_ = std::move(read).error();
        return Values(states);
      }
      llvm::append_range(elements, *read);
    }
    const Values after = state.accumulation.add(builder, of_slot(builder, states, slot), elements);
    if (tiled_.slots() == 1) return after;
    Values next;
    for (const auto& [value, all] : llvm::zip_equal(after, states)) {
      next.push_back(builder.create<mlir::vector::InsertOp>(value, all, slot));
    }
    return next;
  }

  /// Where a thread has several outputs, their states are one vector for each value: unrolled loops know which element.
  Values packed(const HeroState& state) {
    if (tiled_.slots() == 1) return state.slots[0];
    Values vectors;
    for (size_t k = 0; k < state.accumulation.state_size(); ++k) {
      const auto type = mlir::VectorType::get({tiled_.slots()}, state.slots[0][k].getType());
      vectors.push_back(builder_.create<mlir::vector::SplatOp>(type, state.slots[0][k]));
    }
    return vectors;
  }

  void unpack(HeroState& state, ValueRange values) {
    for (size_t i = 0; i < state.slots.size(); ++i) {
      for (size_t k = 0; k < values.size(); ++k) {
        state.slots[i][k] =
            state.slots.size() == 1
                ? values[k]
                : builder_.create<mlir::vector::ExtractOp>(values[k], static_cast<int64_t>(i)).getResult();
      }
    }
  }

  Values of_slot(Builder& builder, ValueRange packed_states, Value slot) const {
    if (tiled_.slots() == 1) return Values(packed_states);
    Values values;
    for (const Value all : packed_states) values.push_back(builder.create<mlir::vector::ExtractOp>(all, slot));
    return values;
  }

  // --- across threads ---

  void shuffle(HeroState& state, int64_t lanes) {
    if (lanes < 2) return;
    for (Values& slot : state.slots) {
      auto reduced =
          builder_.create<ShuffleReduceOp>(mlir::TypeRange(ValueRange(slot).getTypes()), slot,
                                           static_cast<uint64_t>(lanes / 2), state.accumulation.combiner().getName());
      slot = Values(reduced.getResults());
    }
  }

  void combine_lanes(HeroState& state) { shuffle(state, tiled_.lanes()); }

  static mlir::RankedTensorType shared_type(const indexing::SharedTile& tile, mlir::Type element) {
    return mlir::RankedTensorType::get(tile.shape, element,
                                       SharedTileAttr::get(element.getContext(), tile.padding, tile.swizzle_chunk));
  }

  /// The map for any thread of any block.
  IndexingMap for_all(IndexingMap map) const {
    map.dims = {indexing::below(tiled_.tiling.blocks()), indexing::below(tiled_.tiling.threads_per_block())};
    map.constraints.clear();
    return map;
  }

  /// Whether a thread has what the map says: nothing if all do.
  Value condition(const IndexingMap& map) {
    const IndexingMap all = for_all(map);
    const std::vector<indexing::Constraint> tests = indexing::guards(map, all.dims, map.ranges);
    if (tests.empty()) return {};
    return constraints_hold(builder_, all, tests, {kernel_.place(), {}, {}});
  }

  void combine_parts(std::vector<HeroState>& states) {
    Values tiles;
    for (const HeroState& state : states) {
      for (const Value value : state.slots[0]) {
        tiles.push_back(builder_.create<AllocateSharedOp>(shared_type(tiled_.part_tile(4), value.getType())));
      }
    }
    for (int64_t slot = 0; slot < tiled_.slots(); ++slot) {
      const IndexingMap map = tiled_.part_writes(slot);
      const Value mine = condition(map);
      const Values at = apply_map(builder_, for_all(map), {kernel_.place(), {}, {}});
      size_t number = 0;
      for (const HeroState& state : states) {
        for (const Value value : state.slots[static_cast<size_t>(slot)]) {
          Value& tile = tiles[number++];
          tile = mine ? builder_.create<PredicatedInsertOp>(tile.getType(), mine, value, tile, at).getResult()
                      : builder_.create<mlir::tensor::InsertOp>(value, tile, at).getResult();
        }
      }
    }
    tiles = synced(tiles);
    size_t number = 0;
    for (HeroState& state : states) {
      const size_t size = state.accumulation.state_size();
      const ValueRange parts = ValueRange(tiles).slice(number, size);
      number += size;
      const auto vector = tiled_.combines_everywhere() ? std::optional<int64_t>(0) : std::nullopt;
      auto loop = create_loop(builder_, tiled_.part_reads(), kernel_.place(), state.accumulation.empty(builder_),
                              vector, [&](Builder& inside, ValueRange, ValueRange at, ValueRange before) {
                                Values part;
                                for (const Value tile : parts)
                                  part.push_back(inside.create<mlir::tensor::ExtractOp>(tile, at));
                                return state.accumulation.combine(inside, before, part);
                              });
      state.slots = {Values(loop.getResults())};
      shuffle(state, tiled_.combining_lanes());
    }
  }

  // --- what is done once a row ---

  Result<void> finish(int stage, std::vector<HeroState>& states) {
    if (tiled_.splits() > 1) {
      update_outputs(states);
      return {};
    }
    for (HeroState& state : states) {
      const hlo::Instruction& it = functions_.computation()[state.hero->id];
      const size_t count = state.accumulation.types().size();
      Values initial;
      for (size_t i = 0; i < count; ++i) {
        STRATA_TRY(const Values value,
                   functions_.read(builder_, it.operands[count + i], kernel_.inputs(), {}, scalar_heroes()));
        initial.push_back(value[0]);
      }
      for (Values& slot : state.slots) slot = state.accumulation.result(builder_, initial, slot);
    }
    share(states);
    for (const ReductionWrite& write : plan_.outputs.writes) {
      if (!write.elementwise && write.stage == stage) write_rows(write, states);
    }
    return {};
  }

  /// For initial values that depend on heroes: these are of one row then.
  HeroValues scalar_heroes() {
    return broadcast_.empty() && everywhere_.empty()
               ? HeroValues()
               : known_heroes(builder_, builder_.create<mlir::arith::ConstantIndexOp>(0));
  }

  /// Puts results where all threads see them.
  void share(const std::vector<HeroState>& states) {
    Values tiles;
    std::vector<const HeroState*> shared;
    for (const HeroState& state : states) {
      if (!is_broadcast(plan_, *state.hero)) continue;
      if (tiled_.combines_everywhere()) {
        everywhere_[state.hero->id] = state.slots[0];
        continue;
      }
      shared.push_back(&state);
      for (const Value value : state.slots[0]) {
        tiles.push_back(builder_.create<AllocateSharedOp>(shared_type({{tiled_.outputs()}, 4, 0, 0}, value.getType())));
      }
    }
    if (shared.empty()) return;
    auto loop = create_loop(
        builder_, tiled_.holders(), kernel_.place(), tiles, std::nullopt,
        [&](Builder& inside, ValueRange, ValueRange results, ValueRange before) {
          Values next;
          for (const HeroState* state : shared) {
            for (const Value value : slot_values(inside, *state, results.back())) {
              next.push_back(inside.create<mlir::tensor::InsertOp>(value, before[next.size()], results[tiled_.rank()]));
            }
          }
          return next;
        });
    const Values seen = synced(Values(loop.getResults()));
    size_t number = 0;
    for (const HeroState* state : shared) {
      const size_t count = state->accumulation.types().size();
      broadcast_[state->hero->id] = Values(ValueRange(seen).slice(number, count));
      number += count;
    }
  }

  /// Tiles as they are once all threads have written them. Where registers have rows in part, what earlier stages have
  /// left is new from here on, too: else all that one stage computes of a row's elements would be what the next one
  /// needs, and stay beside the elements themselves, which spills (an exponential and its sum, of rows that softmax
  /// goes through).
  Values synced(Values tiles) {
    const size_t count = tiles.size();
    std::vector<Value*> tiles_before, values_before;
    if (tiled_.in_registers > 0) {
      for (Value& tile : kept_) tiles_before.push_back(&tile);
      for (auto& [id, results] : broadcast_)
        for (Value& tile : results) tiles_before.push_back(&tile);
      for (auto& [id, results] : everywhere_)
        for (Value& value : results) values_before.push_back(&value);
    }
    const Value first = values_before.empty() ? Value() : builder_.create<mlir::arith::ConstantIndexOp>(0).getResult();
    for (const Value* tile : tiles_before) tiles.push_back(*tile);
    for (const Value* value : values_before) {  // all threads have the same
      const Value tile = builder_.create<AllocateSharedOp>(shared_type({{1}, 4, 0, 0}, value->getType()));
      tiles.push_back(builder_.create<mlir::tensor::InsertOp>(*value, tile, first));
    }
    auto sync = builder_.create<SyncThreadsOp>(mlir::TypeRange(ValueRange(tiles).getTypes()), tiles);
    const ValueRange results = sync.getResults();
    size_t number = count;
    for (Value* tile : tiles_before) *tile = results[number++];
    for (Value* value : values_before) *value = builder_.create<mlir::tensor::ExtractOp>(results[number++], first);
    return Values(results.take_front(count));
  }

  /// A hero's results in the slot that a thread's outputs are written from.
  static Values slot_values(Builder& builder, const HeroState& state, Value slot) {
    Values values = state.slots[0];
    for (size_t i = 1; i < state.slots.size(); ++i) {
      const Value number = builder.create<mlir::arith::ConstantIndexOp>(static_cast<int64_t>(i));
      const Value here = builder.create<mlir::arith::CmpIOp>(mlir::arith::CmpIPredicate::eq, slot, number);
      for (size_t k = 0; k < values.size(); ++k) {
        values[k] = builder.create<mlir::arith::SelectOp>(here, state.slots[i][k], values[k]);
      }
    }
    return values;
  }

  /// From a thread's place to the indices at which it writes, the output of the block and the slot.
  IndexingMap row_map(const IndexingMap& index) const {
    IndexingMap extended = index;
    for (const indexing::Expr& result : {indexing::Expr::dim(0), indexing::Expr::dim(1)}) {
      extended.results.push_back(indexing::Expr::dim(static_cast<int>(extended.dims.size()) + result.number()));
    }
    extended.dims.push_back(indexing::below(tiled_.outputs()));
    extended.dims.push_back(indexing::below(tiled_.slots()));
    return indexing::simplify(indexing::compose(tiled_.holders(), extended), indexing::UnusedVariables::Keep);
  }

  /// The range variable of outputs that a thread has side by side.
  std::optional<int64_t> row_vector(const ReductionWrite& write) const {
    const bool together = tiled_.parts() == 1 && !tiled_.combines_lanes() && write.index.ranges.empty();
    return together ? tiled_.vector() : std::nullopt;
  }

  void write_rows(const ReductionWrite& write, const std::vector<HeroState>& states) {
    const IndexingMap map = row_map(write.index);
    auto loop = create_loop(builder_, map, kernel_.place(), outputs_, row_vector(write),
                            [&](Builder& inside, ValueRange, ValueRange results, ValueRange written) {
                              const size_t indices = results.size() - 2;
                              HeroValues heroes = known_heroes(inside, results[indices]);
                              for (const HeroState& state : states)
                                heroes[state.hero->id] = slot_values(inside, state, results.back());
                              return write_outputs(inside, functions_, write.function, kernel_.inputs(),
                                                   results.take_front(indices),
                                                   functions_.injected(write.function, heroes), Values(written));
                            });
    outputs_ = Values(loop.getResults());
  }

  /// Combines what this block has with what outputs hold.
  void update_outputs(const std::vector<HeroState>& states) {
    for (const ReductionWrite& write : plan_.outputs.writes) {
      if (write.elementwise) continue;
      const IndexingMap map = row_map(write.index);
      auto loop = create_loop(
          builder_, map, kernel_.place(), outputs_, std::nullopt,
          [&](Builder& inside, ValueRange, ValueRange results, ValueRange written) {
            Values next(written);
            const Values indices(results.drop_back(2));
            for (size_t i = 0; i < next.size(); ++i) {
              const OutputValue from = output_value(functions_, static_cast<int>(i));
              if (from.function != write.function) continue;
              const InstructionId id = source_of(functions_.computation(), functions_.partition(), i);
              for (const HeroState& state : states) {
                if (state.hero->id != id) continue;
                const Value value = slot_values(inside, state, results.back())[0];
                const Values at = apply_map(inside, from.element, {indices, {}, {}});
                const hlo::Instruction& it = functions_.computation()[id];
                next[i] = inside.create<AtomicRmwOp>(
                    next[i].getType(), *named_combiner(functions_.hlo_module(), it.called[0]), value, next[i], at);
              }
            }
            return next;
          });
      outputs_ = Values(loop.getResults());
    }
  }

  FusionFunctions& functions_;
  const ReductionPlan& plan_;
  const TiledReduction& tiled_;
  Kernel kernel_;
  Builder& builder_;
  Values outputs_;
  std::map<InstructionId, Values> broadcast_;  ///< tiles with the results of heroes, one element an output of the block
  HeroValues everywhere_;                      ///< results of heroes that each thread has computed itself
  Values kept_;                                ///< tiles with the elements of staged inputs
  std::optional<Error> error_;
};

}  // namespace

Result<void> emit_reduction(FusionFunctions& functions, const ReductionPlan& plan, const std::string& name,
                            const Decision& decision) {
  return ReductionEmitter(functions, plan, name, decision).run();
}

bool is_broadcast(const ReductionPlan& plan, const ReductionHero& hero) {
  if (hero.stage + 1 < plan.heroes.stages) return true;
  return llvm::any_of(plan.outputs.writes, [&](const ReductionWrite& write) {
    const auto& injected = plan.outputs.partition.functions[static_cast<size_t>(write.function)].injected;
    return write.elementwise && llvm::is_contained(injected, hero.id);
  });
}

int64_t reduction_shared_bytes(const hlo::Module& module, hlo::ComputationId computation, const ReductionPlan& plan) {
  int64_t bytes = 0;
  for (const StagedInput& input : plan.heroes.staged) {
    bytes +=
        plan.tiled.outputs() * plan.tiled.most_in_shared() * hlo::byte_width(module[computation][input.id].shape.type);
  }
  for (const ReductionHero& hero : plan.heroes.heroes) {
    const hlo::Instruction& it = module[computation][hero.id];
    const size_t count = it.operands.size() / 2;
    const bool flagged = count > 1 || !named_combiner(module, it.called[0]) ||
                         hlo::is_complex(indexing::element_shape(it.shape, 0).type);
    if (plan.tiled.parts() > 1 && flagged) bytes += plan.tiled.part_tile(1).bytes();
    for (size_t i = 0; i < count; ++i) {
      const hlo::ElementType type = indexing::element_shape(it.shape, static_cast<int>(i)).type;
      if (plan.tiled.parts() > 1) bytes += plan.tiled.part_tile(hlo::byte_width(wide_type(type))).bytes();
      const bool is_passed_on = plan.tiled.in_registers > 0 && hero.stage + 1 < plan.heroes.stages;
      if (is_broadcast(plan, hero) && (!plan.tiled.combines_everywhere() || is_passed_on))
        bytes += plan.tiled.outputs() * hlo::byte_width(type);
    }
  }
  return bytes;
}

}  // namespace strata::emitters
