// What the kernels of a scan do with the states and vectors of a thread. Only scan_kernel.cpp includes it.
#pragma once

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
#include "hlo/indexing/operand_maps.h"
#include "indexing/simplify.h"

namespace strata::emitters::scan_code {

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

/// A kernel while it is written: where its threads stand, their states, what they read.
class ScanCode {
 protected:
  ScanCode(const FusionFunctions& functions, const ScanPlan& plan, const std::vector<ScanHero>& heroes, Kernel& kernel,
           const Launch& launch, bool totals)
      : functions_(functions),
        plan_(plan),
        tiling_(plan.tiling),
        heroes_(heroes),
        kernel_(kernel),
        launch_(launch),
        is_totals_(totals),
        outputs_(kernel.outputs()) {}

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

}  // namespace strata::emitters::scan_code
