// The kernels of a scan: what threads have of a tile is scanned in registers, then lanes by shuffles, warps in shared
// memory and tiles by what is carried on.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/types.h"
#include "emitters/kinds/combiners.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/scan.h"
#include "emitters/kinds/scatter/rows.h"
#include "indexing/operand_maps.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
using arith::CmpIPredicate;
using Builder = mlir::ImplicitLocOpBuilder;
using hlo::InstructionId;
using indexing::below;
using indexing::Expr;
using indexing::IndexingMap;
using indexing::Interval;
using mlir::Value;
using mlir::ValueRange;

/// What is accumulated of some elements in the order of the scan: a state of Accumulation. Of no elements: nothing.
using State = Values;
using States = std::vector<State>;

struct ScanHero {
  InstructionId id = 0;
  Accumulation accumulation;
  /// Whether the initial value is what the scan begins with: else it is combined with each result. From the end it
  /// would stand on the wrong side of a combiner that might not be commutative.
  bool begins_with_initial = true;
};

/// What a thread reads at once: the wide elements of each hero's operands in each slot of the vector, as they lie.
struct Piece {
  Value valid;  ///< whether the elements are there; null if they are
  std::vector<std::vector<Values>> elements;
};

/// A piece of one hero after the scan of its warp: the state of each slot within the piece, and for each column what
/// comes before it in the tile.
struct ScannedPiece {
  States within, before;
};

class ScanEmitter {
 public:
  ScanEmitter(const FusionFunctions& functions, const ScanPlan& plan, const std::vector<ScanHero>& heroes,
              Kernel& kernel, const Launch& launch, bool totals)
      : functions_(functions),
        plan_(plan),
        tiling_(plan.tiling),
        heroes_(heroes),
        kernel_(kernel),
        launch_(launch),
        is_totals_(totals),
        outputs_(kernel.outputs()) {}

  Result<void> run() {
    Builder& builder = kernel_.builder();
    find_place(builder);
    if (tiling_.warps > 1) allocate(builder);
    Values carries = flat(initial_carries(builder));
    if (!is_totals_ && tiling_.chunks > 1) carries = flat(carries_of_chunk(builder, unflat(carries)));
    IndexingMap map;
    map.ranges = {below(tiling_.tiles)};
    Values inits(outputs_);
    llvm::append_range(inits, shared_);
    llvm::append_range(inits, carries);
    const size_t outputs = outputs_.size(), tiles = shared_.size();
    auto loop = create_loop(
        builder, map, {}, inits, std::nullopt, [&](Builder& inside, ValueRange ranges, ValueRange, ValueRange before) {
          outputs_ = Values(before.take_front(outputs));
          shared_ = Values(before.slice(outputs, tiles));
          const Values next = flat(scan_tile(inside, ranges[0], unflat(before.drop_front(outputs + tiles))));
          Values after(outputs_);
          llvm::append_range(after, shared_);
          llvm::append_range(after, next);
          return after;
        });
    if (error_) return tl::unexpected(std::move(*error_));
    const ValueRange results = loop.getResults();
    outputs_ = Values(results.take_front(outputs));
    Values temporaries(kernel_.temporaries());
    if (is_totals_) temporaries = written_totals(builder, unflat(results.drop_front(outputs + tiles)));
    if (error_) return tl::unexpected(std::move(*error_));
    kernel_.finish(outputs_, temporaries);
    return {};
  }

 private:
  int64_t slots() const { return tiling_.vector * tiling_.columns; }
  size_t columns() const { return static_cast<size_t>(tiling_.columns); }
  size_t arrays(const ScanHero& hero) const { return hero.accumulation.types().size(); }

  // --- where the thread stands ---

  std::vector<Interval> place_ranges() const {
    return {below(std::max<int64_t>(launch_.blocks, 1)), below(launch_.threads), below(tiling_.tiles)};
  }

  Value at_place(Builder& builder, const Expr& expr, Value tile = {}) {
    std::vector<Interval> ranges = place_ranges();
    Values values = kernel_.place();
    tile ? values.push_back(tile) : ranges.pop_back();
    return at(builder, expr, ranges, values);
  }

  void find_place(Builder& builder) {
    const Expr block = Expr::dim(0), thread = Expr::dim(1);
    const Expr lane = indexing::mod(thread, 32), warp = indexing::floor_div(thread, 32);
    const int64_t side_by_side = tiling_.lines_of_warp();
    // Lanes beside each other read what lies together in memory: along the scan, or columns.
    const bool rows = tiling_.inner == 1;
    lane_expr_ = rows ? indexing::mod(lane, tiling_.lanes) : indexing::floor_div(lane, side_by_side);
    const Expr other = rows ? indexing::floor_div(lane, tiling_.lanes) : indexing::mod(lane, side_by_side);
    warp_expr_ = tiling_.warps > 1 ? warp : Expr::constant(0);
    const Expr group = tiling_.warps > 1 ? Expr::constant(0) : warp;
    chunk_expr_ = indexing::floor_div(block, tiling_.line_blocks());
    // What was read last by the kernel of totals may still be in the cache: it comes first.
    if (!is_totals_) chunk_expr_ = Expr::constant(tiling_.chunks - 1) - chunk_expr_;
    const Expr line_expr =
        indexing::mod(block, tiling_.line_blocks()) * tiling_.lines_of_block() + group * side_by_side + other;
    line_ = at_place(builder, line_expr);
    if (tiling_.lines() % tiling_.lines_of_block() != 0) {
      line_valid_ = compare(builder, CmpIPredicate::slt, line_, index_constant(builder, tiling_.lines()));
      line_ = builder.create<arith::MinSIOp>(line_, index_constant(builder, tiling_.lines() - 1));
    }
    other_ = at_place(builder, other);
    lane_ = at_place(builder, lane_expr_);
    const int64_t stride = rows ? 1 : side_by_side;
    const Value whole_lane = at_place(builder, lane);
    for (int64_t distance = 1; distance < tiling_.lanes; distance *= 2) {
      const Value has = compare(builder, CmpIPredicate::sge, lane_, index_constant(builder, distance));
      const Value before = builder.create<arith::SubIOp>(whole_lane, index_constant(builder, distance * stride));
      const Value source = builder.create<arith::MaxSIOp>(before, index_constant(builder, 0));
      lanes_before_.push_back({has, source});
    }
    const Expr last = rows ? other * tiling_.lanes + (tiling_.lanes - 1) : other + (tiling_.lanes - 1) * side_by_side;
    last_lane_ = at_place(builder, last);
  }

  /// Of elements: (line, vector's number in memory, slot) → position in memory of the result.
  IndexingMap position() const {
    const Expr line = Expr::dim(0), vector = Expr::dim(1), slot = Expr::dim(2);
    const int64_t of_inner = tiling_.inner / tiling_.columns;
    IndexingMap map;
    map.dims = {below(tiling_.lines()), below(tiling_.vectors()), below(slots())};
    const Expr along = vector * tiling_.vector + (tiling_.vector > 1 ? slot : Expr::constant(0));
    map.results = {indexing::floor_div(line, of_inner) * (tiling_.length * tiling_.inner) + along * tiling_.inner +
                   indexing::mod(line, of_inner) * tiling_.columns + (tiling_.columns > 1 ? slot : Expr::constant(0))};
    return map;
  }

  IndexingMap index_in(const hlo::Shape& shape) const {
    return indexing::simplify(indexing::compose(position(), index_at_position(shape)), indexing::UnusedVariables::Keep);
  }

  // --- states ---

  mlir::Type wide(Builder& builder, hlo::ElementType type) const {
    return element_type(builder.getContext(), wide_type(type));
  }

  /// The state of elements before those of the other.
  State combine(Builder& builder, const ScanHero& hero, const State& earlier, const State& later) const {
    if (earlier.empty()) return later;
    if (later.empty()) return earlier;
    return tiling_.reverse ? hero.accumulation.combine(builder, later, earlier)
                           : hero.accumulation.combine(builder, earlier, later);
  }

  static State select(Builder& builder, Value condition, const State& then, const State& otherwise) {
    State result;
    for (const auto& [a, b] : llvm::zip_equal(then, otherwise)) {
      result.push_back(builder.create<arith::SelectOp>(condition, a, b));
    }
    return result;
  }

  State state_of(Builder& builder, const ScanHero& hero, Value valid, const Values& elements) const {
    State state;
    if (hero.accumulation.flagged()) {
      state.push_back(valid ? valid : builder.create<arith::ConstantIntOp>(1, 1).getResult());
      llvm::append_range(state, elements);
      return state;
    }
    return valid ? select(builder, valid, elements, hero.accumulation.empty(builder)) : State(elements);
  }

  Values flat(const std::vector<States>& states) const {
    Values values;
    for (const States& of_hero : states) {
      for (const State& state : of_hero) llvm::append_range(values, state);
    }
    return values;
  }

  /// For each hero the states of its columns.
  std::vector<States> unflat(ValueRange values) const {
    std::vector<States> result;
    size_t next = 0;
    for (const ScanHero& hero : heroes_) {
      States& states = result.emplace_back();
      for (size_t c = 0; c < columns(); ++c, next += hero.accumulation.state_size()) {
        states.emplace_back(values.slice(next, hero.accumulation.state_size()));
      }
    }
    return result;
  }

  Values initial_values(Builder& builder, const ScanHero& hero) {
    const hlo::Instruction& it = functions_.computation()[hero.id];
    Values initial;
    for (size_t i = 0; i < arrays(hero); ++i) {
      const auto value = functions_.read(builder, it.operands[arrays(hero) + i], kernel_.inputs(), {});
      if (!value) {
        error_ = value.error();
        return zeros(builder, hero.accumulation.types(), /*are_wide=*/false, 1);
      }
      initial.push_back((*value)[0]);
    }
    return initial;
  }

  std::vector<States> initial_carries(Builder& builder) {
    std::vector<States> carries;
    for (const ScanHero& hero : heroes_) {
      State state = hero.accumulation.empty(builder);
      if (!is_totals_ && hero.begins_with_initial) {
        Values initial = initial_values(builder, hero);
        for (size_t i = 0; i < initial.size(); ++i) {
          initial[i] = widened(builder, initial[i], hero.accumulation.types()[i]);
        }
        state = state_of(builder, hero, {}, initial);
      }
      carries.emplace_back(columns(), state);
    }
    return carries;
  }

  // --- vectors ---

  Values zeros(Builder& builder, const std::vector<hlo::ElementType>& types, bool are_wide, int64_t count) const {
    Values values;
    for (const hlo::ElementType type : types) {
      if (hlo::is_complex(type)) {
        values.push_back(emit_zero(builder, type));
        continue;
      }
      const mlir::Type element = are_wide ? wide(builder, type) : element_type(builder.getContext(), type);
      const mlir::Type all = count == 1 ? element : mlir::Type(mlir::VectorType::get({count}, element));
      values.push_back(builder.create<arith::ConstantOp>(llvm::cast<mlir::TypedAttr>(builder.getZeroAttr(all))));
    }
    return values;
  }

  /// The types of all heroes' arrays.
  std::vector<hlo::ElementType> all_types() const {
    std::vector<hlo::ElementType> types;
    for (const ScanHero& hero : heroes_) llvm::append_range(types, hero.accumulation.types());
    return types;
  }

  /// A piece of `count` slots: `read` gives the wide elements of all heroes' arrays in a slot.
  Piece piece(Builder& builder, int64_t count, Value valid, llvm::function_ref<Values(Builder&, Value slot)> read) {
    Values vectors;
    if (count == 1) {
      vectors = read(builder, index_constant(builder, 0));
    } else {
      IndexingMap map;
      map.ranges = {below(count)};
      auto loop = create_loop(builder, map, {}, zeros(builder, all_types(), /*are_wide=*/true, count), /*vector=*/0,
                              [&](Builder& inside, ValueRange ranges, ValueRange, ValueRange before) {
                                Values next = read(inside, ranges[0]);
                                for (size_t i = 0; i < next.size(); ++i) {
                                  next[i] = inside.create<mlir::vector::InsertOp>(next[i], before[i], ranges[0]);
                                }
                                return next;
                              });
      vectors = Values(loop.getResults());
    }
    Piece result{valid, {}};
    size_t next = 0;
    for (const ScanHero& hero : heroes_) {
      auto& slots = result.elements.emplace_back(static_cast<size_t>(count));
      for (size_t i = 0; i < arrays(hero); ++i, ++next) {
        for (int64_t slot = 0; slot < count; ++slot) {
          slots[static_cast<size_t>(slot)].push_back(
              count == 1 ? vectors[next] : builder.create<mlir::vector::ExtractOp>(vectors[next], slot).getResult());
        }
      }
    }
    return result;
  }

  /// The heroes' operands in a vector of the thread's line.
  Piece operands(Builder& builder, Value vector, Value valid) {
    return piece(builder, slots(), valid, [&](Builder& inside, Value slot) {
      Values elements;
      for (const ScanHero& hero : heroes_) {
        const hlo::Instruction& it = functions_.computation()[hero.id];
        const Values index =
            apply_map(inside, index_in(indexing::element_shape(it.shape, 0)), {{line_, vector, slot}, {}, {}});
        for (size_t i = 0; i < arrays(hero); ++i) {
          const hlo::ElementType type = hero.accumulation.types()[i];
          const auto read = functions_.read(inside, it.operands[i], kernel_.inputs(), index);
          if (read) {
            elements.push_back(widened(inside, (*read)[0], type));
          } else {
            error_ = read.error();
            llvm::append_range(elements, zeros(inside, {type}, /*are_wide=*/true, 1));
          }
        }
      }
      return elements;
    });
  }

  // --- scans ---

  /// Scans the pieces that a thread of each warp has, each `lanes` pieces behind the one before, and what the carries
  /// say comes before them, which become the carries of what comes after. `along`: the slots of a piece follow each
  /// other in the scan, else they are columns.
  std::vector<std::vector<ScannedPiece>> scan(Builder& builder, const std::vector<Piece>& pieces, bool along,
                                              Value parity, std::vector<States>& carries) {
    std::vector<std::vector<ScannedPiece>> scanned(heroes_.size());
    std::vector<States> totals;
    for (size_t h = 0; h < heroes_.size(); ++h) {
      States total(columns());  // of the warp so far
      for (const Piece& one : pieces) {
        ScannedPiece& piece = scanned[h].emplace_back(scan_slots(builder, h, one, along));
        States all = along ? States{along_last(piece)} : piece.within;
        piece.before = scan_lanes(builder, heroes_[h], all);
        for (size_t c = 0; c < columns(); ++c) {
          piece.before[c] = combine(builder, heroes_[h], total[c], piece.before[c]);
          total[c] = combine(builder, heroes_[h], total[c], all[c]);
        }
      }
      totals.push_back(std::move(total));
    }
    const std::vector<States> before = scan_warps(builder, totals, parity, carries);
    for (size_t h = 0; h < heroes_.size(); ++h) {
      for (ScannedPiece& piece : scanned[h]) {
        for (size_t c = 0; c < columns(); ++c) {
          piece.before[c] = combine(builder, heroes_[h], before[h][c], piece.before[c]);
        }
      }
    }
    return scanned;
  }

  /// The state of all slots.
  const State& along_last(const ScannedPiece& piece) const {
    return tiling_.reverse ? piece.within.front() : piece.within.back();
  }

  ScannedPiece scan_slots(Builder& builder, size_t h, const Piece& piece, bool along) const {
    const ScanHero& hero = heroes_[h];
    ScannedPiece result;
    for (const Values& elements : piece.elements[h]) {
      result.within.push_back(state_of(builder, hero, piece.valid, elements));
    }
    const size_t count = result.within.size();
    for (size_t i = 1; along && i < count; ++i) {
      const size_t slot = tiling_.reverse ? count - 1 - i : i, previous = tiling_.reverse ? slot + 1 : slot - 1;
      result.within[slot] = combine(builder, hero, result.within[previous], result.within[slot]);
    }
    return result;
  }

  States shuffled(Builder& builder, const States& states, Value lane) const {
    Values values;
    for (const State& state : states) llvm::append_range(values, state);
    auto shuffle = builder.create<ShuffleIndexOp>(mlir::TypeRange(ValueRange(values).getTypes()), values, lane);
    States result;
    size_t next = 0;
    for (const State& state : states) {
      result.emplace_back(ValueRange(shuffle.getResults()).slice(next, state.size()));
      next += state.size();
    }
    return result;
  }

  /// What lanes before have, for each column; `states` become those of all lanes together.
  States scan_lanes(Builder& builder, const ScanHero& hero, States& states) const {
    if (tiling_.lanes == 1) return States(columns());
    for (const auto& [has, source] : lanes_before_) {
      const States others = shuffled(builder, states, source);
      for (size_t c = 0; c < columns(); ++c) {
        states[c] = select(builder, has, combine(builder, hero, others[c], states[c]), states[c]);
      }
    }
    States before = shuffled(builder, states, lanes_before_[0].second);
    for (State& state : before) {
      state = select(builder, lanes_before_[0].first, state, hero.accumulation.empty(builder));
    }
    states = shuffled(builder, states, last_lane_);
    return before;
  }

  void allocate(Builder& builder) {
    const int64_t width = tiling_.lines_of_warp() * tiling_.columns;
    for (const ScanHero& hero : heroes_) {
      for (const Value value : hero.accumulation.empty(builder)) {
        const auto type = mlir::RankedTensorType::get({2, tiling_.warps, width}, value.getType(),
                                                      SharedTileAttr::get(builder.getContext(), 0, 0));
        shared_.push_back(builder.create<AllocateSharedOp>(type));
      }
    }
  }

  /// The states before the thread's warp, for each hero and column: carries and what the warps before have. Two tiles
  /// take turns, so that there is one barrier for each: no warp writes what another may still read.
  std::vector<States> scan_warps(Builder& builder, const std::vector<States>& totals, Value parity,
                                 std::vector<States>& carries) {
    std::vector<States> before = carries;
    if (tiling_.warps == 1) {
      for (size_t h = 0; h < heroes_.size(); ++h) {
        for (size_t c = 0; c < columns(); ++c) {
          carries[h][c] = combine(builder, heroes_[h], carries[h][c], totals[h][c]);
        }
      }
      return before;
    }
    const Value warp = at_place(builder, warp_expr_);
    const Value first = compare(builder, CmpIPredicate::eq, lane_, index_constant(builder, 0));
    const auto place = [&](Value of_warp, size_t column) {
      const Value in_row = at(builder, Expr::dim(0) * tiling_.columns + static_cast<int64_t>(column),
                              {below(tiling_.lines_of_warp())}, other_);
      return Values{parity, of_warp, in_row};
    };
    size_t number = 0;
    for (size_t h = 0; h < heroes_.size(); ++h) {
      const size_t size = heroes_[h].accumulation.state_size();
      for (size_t c = 0; c < columns(); ++c) {
        for (size_t i = 0; i < size; ++i) {
          Value& tile = shared_[number + i];
          tile = builder.create<PredicatedInsertOp>(tile.getType(), first, totals[h][c][i], tile, place(warp, c));
        }
      }
      number += size;
    }
    auto synced = builder.create<SyncThreadsOp>(mlir::TypeRange(ValueRange(shared_).getTypes()), shared_);
    shared_ = Values(synced.getResults());
    for (int64_t w = 0; w < tiling_.warps; ++w) {
      const Value of_warp = index_constant(builder, w);
      const Value mine = w == 0 ? Value() : compare(builder, CmpIPredicate::eq, warp, of_warp);
      number = 0;
      for (size_t h = 0; h < heroes_.size(); ++h) {
        const size_t size = heroes_[h].accumulation.state_size();
        for (size_t c = 0; c < columns(); ++c) {
          if (mine) before[h][c] = select(builder, mine, carries[h][c], before[h][c]);
          State total;
          for (size_t i = 0; i < size; ++i) {
            total.push_back(builder.create<mlir::tensor::ExtractOp>(shared_[number + i], place(of_warp, c)));
          }
          carries[h][c] = combine(builder, heroes_[h], carries[h][c], total);
        }
        number += size;
      }
    }
    return before;
  }

  // --- tiles ---

  /// Scans a tile and writes its results; gives the carries after it.
  std::vector<States> scan_tile(Builder& builder, Value tile, std::vector<States> carries) {
    const int64_t covered = tiling_.chunks * tiling_.tiles * tiling_.tile();
    std::vector<Piece> pieces;
    std::vector<Value> vectors;
    for (int64_t u = 0; u < tiling_.unroll; ++u) {
      const Expr number =
          (((chunk_expr_ * tiling_.tiles + Expr::dim(2)) * tiling_.warps + warp_expr_) * tiling_.unroll + u) *
              tiling_.lanes +
          lane_expr_;
      Value vector = at_place(builder, number, tile);
      Value valid;
      if (covered > tiling_.vectors()) {
        // Threads behind the end read the last vector again: no load waits for a branch.
        valid = compare(builder, CmpIPredicate::slt, vector, index_constant(builder, tiling_.vectors()));
        vector = builder.create<arith::MinSIOp>(vector, index_constant(builder, tiling_.vectors() - 1));
      }
      if (tiling_.reverse) {
        vector = at(builder, Expr::constant(tiling_.vectors() - 1) - Expr::dim(0), {below(tiling_.vectors())}, vector);
      }
      vectors.push_back(vector);
      pieces.push_back(operands(builder, vector, valid));
    }
    const Value parity = at(builder, indexing::mod(Expr::dim(0), 2), {below(tiling_.tiles)}, tile);
    const auto scanned = scan(builder, pieces, tiling_.vector > 1, parity, carries);
    for (size_t u = 0; !is_totals_ && u < pieces.size(); ++u) write(builder, scanned, u, vectors[u], pieces[u].valid);
    return carries;
  }

  /// The results of a hero in all slots of a piece, of its arrays' types.
  std::vector<Values> results(Builder& builder, const ScanHero& hero, const ScannedPiece& piece) {
    const size_t first = hero.accumulation.flagged() ? 1 : 0;
    std::vector<Values> slots;
    for (size_t slot = 0; slot < piece.within.size(); ++slot) {
      const State& before = piece.before[piece.before.size() == 1 ? 0 : slot];
      const State state = combine(builder, hero, before, piece.within[slot]);
      if (!hero.begins_with_initial) {
        slots.push_back(hero.accumulation.result(builder, initial_values(builder, hero), state));
        continue;
      }
      Values& values = slots.emplace_back();
      for (size_t i = 0; i < arrays(hero); ++i) {
        values.push_back(narrowed(builder, state[first + i], hero.accumulation.types()[i]));
      }
    }
    return slots;
  }

  void write(Builder& builder, const std::vector<std::vector<ScannedPiece>>& scanned, size_t u, Value vector,
             Value valid) {
    Values packed = zeros(builder, all_types(), /*are_wide=*/false, slots());
    size_t next = 0;
    for (size_t h = 0; h < heroes_.size(); ++h) {
      const std::vector<Values> values = results(builder, heroes_[h], scanned[h][u]);
      for (size_t i = 0; i < arrays(heroes_[h]); ++i, ++next) {
        for (size_t slot = 0; slot < values.size(); ++slot) {
          packed[next] =
              slots() == 1
                  ? values[slot][i]
                  : builder.create<mlir::vector::InsertOp>(values[slot][i], packed[next], static_cast<int64_t>(slot))
                        .getResult();
        }
      }
    }
    Value condition = line_valid_;
    if (valid) condition = condition ? builder.create<arith::AndIOp>(condition, valid).getResult() : valid;
    outputs_ = if_holds(builder, condition, outputs_, [&](Builder& inside) {
      if (slots() == 1) return write_slot(inside, packed, vector, index_constant(inside, 0), outputs_);
      IndexingMap map;
      map.ranges = {below(slots())};
      auto loop = create_loop(inside, map, {}, outputs_, /*vector=*/0,
                              [&](Builder& innermost, ValueRange ranges, ValueRange, ValueRange before) {
                                Values values;
                                for (const Value all : packed) {
                                  values.push_back(innermost.create<mlir::vector::ExtractOp>(all, ranges[0]));
                                }
                                return write_slot(innermost, values, vector, ranges[0], Values(before));
                              });
      return Values(loop.getResults());
    });
  }

  /// Writes all outputs at an element: those that are computed of the heroes' values, and the others.
  Values write_slot(Builder& builder, const Values& values, Value vector, Value slot, Values outputs) {
    HeroValues heroes;
    size_t next = 0;
    for (const ScanHero& hero : heroes_) {
      for (size_t i = 0; i < arrays(hero); ++i) heroes[hero.id].push_back(values[next++]);
    }
    for (const bool with_heroes : {true, false}) {
      for (const int function : root_functions(plan_.split, with_heroes)) {
        const InstructionId result =
            functions_.partition().functions[static_cast<size_t>(function)].results[0].instruction;
        const hlo::Shape& shape = indexing::element_shape(functions_.computation()[result].shape, 0);
        const Values index = apply_map(builder, index_in(shape), {{line_, vector, slot}, {}, {}});
        outputs = write_outputs(builder, functions_, function, kernel_.inputs(), index,
                                functions_.injected(function, heroes), outputs);
      }
    }
    return outputs;
  }

  // --- chunks ---

  /// Where the total of a chunk is in its temporary.
  Value place_of_total(Builder& builder, Value chunk, Value column) {
    const Expr place = (Expr::dim(0) * tiling_.lines() + Expr::dim(1)) * tiling_.columns + Expr::dim(2);
    return at(builder, place, {below(tiling_.chunks - 1), below(tiling_.lines()), below(tiling_.columns)},
              {chunk, line_, column});
  }

  Values written_totals(Builder& builder, const std::vector<States>& carries) {
    Value condition = line_valid_;
    const auto require = [&](Value more) {
      condition = condition ? builder.create<arith::AndIOp>(condition, more).getResult() : more;
    };
    if (tiling_.lanes > 1) require(compare(builder, CmpIPredicate::eq, lane_, index_constant(builder, 0)));
    if (tiling_.warps > 1) {
      require(compare(builder, CmpIPredicate::eq, at_place(builder, warp_expr_), index_constant(builder, 0)));
    }
    const Values temporaries(kernel_.temporaries());
    return if_holds(builder, condition, temporaries, [&](Builder& inside) {
      Values after(temporaries);
      const Value chunk = at_place(inside, chunk_expr_);
      size_t next = 0;
      for (size_t h = 0; h < heroes_.size(); ++h) {
        const size_t first = heroes_[h].accumulation.flagged() ? 1 : 0;
        for (size_t i = 0; i < arrays(heroes_[h]); ++i, ++next) {
          for (size_t c = 0; c < columns(); ++c) {
            const Value place = place_of_total(inside, chunk, index_constant(inside, static_cast<int64_t>(c)));
            after[next] = inside.create<mlir::tensor::InsertOp>(carries[h][c][first + i], after[next], place);
          }
        }
      }
      return after;
    });
  }

  /// What comes before the block's chunk: the block scans the totals of the chunks before as it does a tile.
  std::vector<States> carries_of_chunk(Builder& builder, std::vector<States> carries) {
    const int64_t count = tiling_.chunks - 1;
    const int64_t unroll = indexing::ceil_div(count, tiling_.warps * tiling_.lanes);
    const Value chunk = at_place(builder, chunk_expr_);
    std::vector<Piece> pieces;
    for (int64_t u = 0; u < unroll; ++u) {
      const Expr number = (warp_expr_ * unroll + u) * tiling_.lanes + lane_expr_;
      Value other = at_place(builder, number);
      const Value valid = compare(builder, CmpIPredicate::slt, other, chunk);
      other = builder.create<arith::MinSIOp>(other, index_constant(builder, count - 1));
      pieces.push_back(piece(builder, tiling_.columns, valid, [&](Builder& inside, Value column) {
        Values totals;
        for (const Value temporary : kernel_.temporaries()) {
          totals.push_back(inside.create<mlir::tensor::ExtractOp>(temporary, place_of_total(inside, other, column)));
        }
        return totals;
      }));
    }
    // The first tile has the other half of shared memory.
    scan(builder, pieces, /*along=*/false, index_constant(builder, 1), carries);
    return carries;
  }

  const FusionFunctions& functions_;
  const ScanPlan& plan_;
  const ScanTiling& tiling_;
  const std::vector<ScanHero>& heroes_;
  Kernel& kernel_;
  const Launch& launch_;
  const bool is_totals_;  ///< of chunks, for the kernel that comes after
  Values outputs_, shared_;
  Expr lane_expr_, warp_expr_, chunk_expr_;            ///< over block and thread: the thread's place along its line
  Value line_, line_valid_;                            ///< line_valid_ is null if all threads have a line
  Value lane_, other_, last_lane_;                     ///< along the line, beside it, and the last one of the line
  std::vector<std::pair<Value, Value>> lanes_before_;  ///< 1, 2, 4, … lanes before: whether there is one, and which
  std::optional<Error> error_;
};

}  // namespace

int64_t scan_shared_bytes(const ScanPlan& plan) {
  const ScanTiling& tiling = plan.tiling;
  if (tiling.warps == 1) return 0;
  const hlo::Computation& computation = (*plan.split.module)[plan.split.computation];
  const int64_t elements = 2 * tiling.warps * tiling.lines_of_warp() * tiling.columns;
  int64_t bytes = 0;
  for (const InstructionId id : plan.split.heroes) {
    const hlo::Instruction& it = computation[id];
    const size_t count = it.operands.size() / 2;
    bytes += elements + 15;  // a flag
    for (size_t i = 0; i < count; ++i) {
      const hlo::ElementType type = indexing::element_shape(it.shape, static_cast<int>(i)).type;
      bytes += elements * hlo::byte_width(wide_type(type)) + 15;
    }
  }
  return bytes;
}

Result<void> emit_scan(FusionFunctions& functions, const ScanPlan& plan, const std::string& name,
                       const Decision& decision) {
  std::vector<ScanHero> heroes;
  for (const InstructionId id : plan.split.heroes) {
    STRATA_TRY(Accumulation accumulation, Accumulation::create(functions, id));
    const bool begins = !plan.tiling.reverse || !accumulation.flagged();
    heroes.push_back({id, std::move(accumulation), begins});
  }
  for (size_t i = 0; i < decision.launches.size(); ++i) {
    const bool totals = i + 1 < decision.launches.size();
    std::vector<size_t> only_read;
    for (size_t n = 0; !totals && n < decision.temporaries.size(); ++n) only_read.push_back(n);
    Kernel kernel(functions, name, decision, i, only_read);
    STRATA_CHECK(ScanEmitter(functions, plan, heroes, kernel, decision.launches[i], totals).run());
  }
  return {};
}

}  // namespace strata::emitters
