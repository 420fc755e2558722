// The kernels of a sort: one that sorts tiles of rows in shared memory, and one that merges sorted runs of a row.
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include <bit>

#include "emitters/elemental/types.h"
#include "emitters/kinds/sort/sort.h"
#include "emitters/kinds/sort/tile_code.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
using Builder = mlir::ImplicitLocOpBuilder;
using indexing::Expr;
using indexing::Interval;
using mlir::Value;
using mlir::ValueRange;
using I = Integers;

/// 1 + ⌊log2 n⌋ for n ≥ 1, 0 for 0.
int64_t steps_for(int64_t n) { return static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(n))); }

/// What both kernels do: read and write elements of rows.
class StepEmitter {
 protected:
  StepEmitter(const SortEmission& emission, size_t launch)
      : emission_(emission),
        shape_(emission.shape),
        step_(emission.steps[launch]),
        launch_(emission.decision.launches[launch]),
        kernel_(emission.functions, emission.name, emission.decision, launch, only_read(emission, step_)),
        builder_(kernel_.builder()),
        code_(emission.less, step_.items),
        outputs_(kernel_.outputs()),
        temporaries_(kernel_.temporaries()) {
    for (const hlo::ElementType type : shape_.types) types_.push_back(element_type(builder_.getContext(), type));
    thread_ = I::of_index(builder_, kernel_.thread());
  }

  static std::vector<size_t> only_read(const SortEmission& emission, const SortStep& step) {
    std::vector<size_t> numbers;
    const size_t arrays = emission.shape.types.size();
    for (size_t i = 0; i < emission.decision.temporaries.size(); ++i) {
      if (step.source >= 0 && i / arrays == static_cast<size_t>(step.source)) numbers.push_back(i);
    }
    return numbers;
  }

  std::vector<Interval> block_and_thread() const {
    return {indexing::below(launch_.blocks), indexing::below(launch_.threads)};
  }

  /// A place (i32) as an index below `length`.
  static Value place_index(Builder& builder, Value place, int64_t length) {
    return I::to_index(builder, I::clamp(builder, place, I::constant(builder, length - 1)));
  }

  /// The element of a row, both of them indices within their ranges.
  Element read(Builder& builder, Value row, Value place) {
    Element element;
    if (step_.source >= 0) {
      const Value position = at(builder, Expr::dim(0) * step_.length + Expr::dim(1),
                                {indexing::below(shape_.rows), indexing::below(step_.length)}, {row, place});
      for (size_t i = 0; i < types_.size(); ++i) {
        const size_t number = static_cast<size_t>(step_.source) * types_.size() + i;
        element.push_back(builder.create<mlir::tensor::ExtractOp>(kernel_.temporaries()[number], position));
      }
      return element;
    }
    const hlo::Instruction& it = emission_.functions.computation()[shape_.sort];
    const Values index = apply_map(builder, shape_.index, {{row, place}, {}, {}});
    for (const hlo::InstructionId operand : it.operands) {
      Result<Values> value = emission_.functions.read(builder, operand, kernel_.inputs(), index);
      if (value) {
        element.push_back((*value)[0]);
      } else {
        error_ = std::move(value).error();
        element.push_back(
            builder.create<arith::ConstantOp>(llvm::cast<mlir::TypedAttr>(builder.getZeroAttr(types_[0]))));
      }
    }
    if (shape_.top_k) element.push_back(I::of_index(builder, place));
    return element;
  }

  /// Writes an element of a row where the condition holds. The place is one of what is written.
  void write(Value condition, const Element& element, Value row, Value place) {
    const std::vector<Interval> ranges{indexing::below(shape_.rows), indexing::below(step_.written)};
    const auto put = [&](Value value, Value tensor, Value position) -> Value {
      return builder_.create<PredicatedInsertOp>(tensor.getType(), condition, value, tensor, position);
    };
    if (step_.target >= 0) {
      const Value position = at(builder_, Expr::dim(0) * step_.written + Expr::dim(1), ranges, {row, place});
      for (size_t i = 0; i < types_.size(); ++i) {
        Value& tensor = temporaries_[static_cast<size_t>(step_.target) * types_.size() + i];
        tensor = put(element[i], tensor, position);
      }
      return;
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const auto& [array, map] = shape_.outputs[i];
      const Value position = apply_map(builder_, map, {{row, place}, {}, {}})[0];
      outputs_[i] = put(element[static_cast<size_t>(array)], outputs_[i], position);
    }
  }

  Result<void> finish() {
    if (error_) return tl::unexpected(std::move(*error_));
    kernel_.finish(outputs_, temporaries_);
    return {};
  }

  Value both(Value a, Value b) { return builder_.create<arith::AndIOp>(a, b); }

  const SortEmission& emission_;
  const SortShape& shape_;
  const SortStep& step_;
  const Launch& launch_;
  Kernel kernel_;
  Builder& builder_;
  TileCode code_;
  Values outputs_, temporaries_;
  llvm::SmallVector<mlir::Type> types_;
  Value thread_;  ///< i32
  std::optional<Error> error_;
};

class TilesEmitter : StepEmitter {
 public:
  TilesEmitter(const SortEmission& emission, size_t launch) : StepEmitter(emission, launch) {}

  Result<void> run() {
    const int64_t elements = step_.rows_per_block * step_.span();
    first_row_ = at(builder_, indexing::floor_div(Expr::dim(0), step_.tiles) * step_.rows_per_block, block_and_thread(),
                    kernel_.place());
    const Value tile = I::of_index(
        builder_, at(builder_, indexing::mod(Expr::dim(0), step_.tiles), block_and_thread(), kernel_.place()));
    const Value begin = I::multiply(builder_, tile, step_.span());
    const bool whole = step_.tiles == 1;
    const Value length = I::constant(builder_, step_.length);
    count_ = whole ? length
                   : I::minimum(builder_, I::subtract(builder_, length, begin), I::constant(builder_, step_.span()));
    Values tiles = TileCode::allocate(builder_, types_, elements + 1);
    // All elements are read before the first one waits in shared memory.
    std::vector<std::pair<Element, Value>> read_elements;
    for (int64_t i = 0; i < step_.items; ++i) {
      const Slot slot = slot_of(i);
      const Value place = whole ? slot.place : I::add(builder_, slot.place, begin);
      const Value clamped =
          exact() && whole ? I::to_index(builder_, place) : place_index(builder_, place, step_.length);
      read_elements.emplace_back(read(builder_, slot.row, clamped), slot.tile_place);
    }
    for (const auto& [element, place] : read_elements) tiles = TileCode::store(builder_, element, tiles, place);
    tiles = TileCode::sync(builder_, tiles);
    tiles = sort(tiles);
    const Value kept = I::minimum(builder_, count_, I::constant(builder_, step_.keep));
    const Value target = I::multiply(builder_, tile, step_.keep);
    for (int64_t i = 0; i < step_.items; ++i) {
      if (step_.rows_per_block == 1 && i * launch_.threads >= step_.keep) break;
      const Slot slot = slot_of(i);
      const Value there = both(slot.exists, I::less(builder_, slot.place, kept));
      const Element element = TileCode::load(builder_, tiles, slot.tile_place);
      const Value place = whole ? slot.place : I::add(builder_, slot.place, target);
      write(there, element, slot.row, place_index(builder_, place, step_.written));
    }
    return finish();
  }

 private:
  /// An element that a thread moves between memory and the tile.
  struct Slot {
    Value row;                ///< an index below shape_.rows
    Value exists;             ///< whether it is a row of the block's own
    Value place, tile_place;  ///< i32: within the row's tile, and in shared memory
  };

  bool exact() const { return step_.span() == step_.length; }

  /// Neighbouring threads take what lies beside each other in memory: places of a row, or rows.
  Slot slot_of(int64_t i) {
    const Expr number = Expr::dim(1) + i * launch_.threads;
    const int64_t rows = step_.rows_per_block, span = step_.span();
    const bool by_rows = step_.source < 0 && shape_.rows_inner;
    const Expr row = by_rows ? indexing::mod(number, rows) : indexing::floor_div(number, span);
    const Expr place = by_rows ? indexing::floor_div(number, rows) : indexing::mod(number, span);
    const auto value = [&](const Expr& expr) { return at(builder_, expr, block_and_thread(), kernel_.place()); };
    Slot slot;
    const Value within = value(row);
    slot.row = builder_.create<arith::AddIOp>(first_row_, within);
    slot.exists = builder_.create<arith::ConstantIntOp>(1, 1);
    if (shape_.rows % rows != 0) {
      slot.exists = compare(builder_, arith::CmpIPredicate::slt, slot.row, index_constant(builder_, shape_.rows));
      slot.row = builder_.create<arith::MinSIOp>(slot.row, index_constant(builder_, shape_.rows - 1));
    }
    slot.place = I::of_index(builder_, value(place));
    slot.tile_place = I::of_index(builder_, value(row * span + place));
    return slot;
  }

  /// The tiles sorted.
  Values sort(Values tiles) {
    const auto group_mask = I::constant(builder_, step_.group - 1);
    const Value in_group = builder_.create<arith::AndIOp>(thread_, group_mask);
    const Value mine = I::multiply(builder_, thread_, step_.items);
    const Value first = I::multiply(builder_, in_group, step_.items);  // within the row
    const Value row = I::subtract(builder_, mine, first);              // where the row begins
    const Value end = I::add(builder_, row, count_);
    Items items = code_.load_items(builder_, tiles, mine);
    const bool full = step_.tiles == 1 && exact();
    items = code_.sorted(builder_, items, full ? Value() : I::subtract(builder_, count_, first));
    tiles = TileCode::sync(builder_, tiles);
    const int64_t passes = steps_for(step_.group) - 1;
    if (passes > 0) {
      Values state = TileCode::flat(items);
      const size_t size = state.size();
      llvm::append_range(state, tiles);
      auto loop = builder_.create<mlir::scf::ForOp>(index_constant(builder_, 0), index_constant(builder_, passes),
                                                    index_constant(builder_, 1), state);
      Builder inside(builder_.getLoc(), builder_.getContext());
      if (!loop.getBody()->empty()) loop.getBody()->getTerminator()->erase();
      inside.setInsertionPointToStart(loop.getBody());
      const ValueRange carried = loop.getRegionIterArgs();
      inside.create<mlir::scf::YieldOp>(pass(inside, loop.getInductionVar(), code_.items_of(carried.take_front(size)),
                                             Values(carried.drop_front(size)), mine, end));
      items = code_.items_of(loop.getResults().take_front(size));
      tiles = Values(loop.getResults().drop_front(size));
    }
    return TileCode::sync(builder_, code_.store_items(builder_, items, tiles, mine));
  }

  /// Merges runs of items · 2^number elements: the items, then the tiles.
  Values pass(Builder& builder, Value number, Items items, Values tiles, Value mine, Value end) {
    tiles = TileCode::sync(builder, code_.store_items(builder, items, tiles, mine));
    const Value shift = I::of_index(builder, number);
    const Value run = builder.create<arith::ShLIOp>(I::constant(builder, step_.items), shift);
    // Threads of a pair of runs, less one.
    const Value threads = builder.create<arith::ShLIOp>(I::constant(builder, 2), shift);
    const Value of_pair = builder.create<arith::AndIOp>(thread_, I::add(builder, threads, -1));
    const Value offset = I::multiply(builder, of_pair, step_.items);
    RunPair runs;
    runs.a = I::subtract(builder, mine, offset);
    runs.a_count = I::clamp(builder, I::subtract(builder, end, runs.a), run);
    runs.b = I::add(builder, runs.a, runs.a_count);
    runs.b_count = I::clamp(builder, I::subtract(builder, end, runs.b), run);
    const Value diagonal = I::minimum(builder, offset, I::add(builder, runs.a_count, runs.b_count));
    const Value steps = builder.create<arith::AddIOp>(number, index_constant(builder, steps_for(step_.items)));
    const auto merge = [&](Builder& inside) {
      return TileCode::flat(code_.merged(inside, tiles, runs, diagonal, steps));
    };
    Values after;
    if (step_.keep < step_.span()) {
      // What stands behind the kept ones of its run is never written.
      const Value wanted = I::less(builder, offset, I::constant(builder, step_.keep));
      after = if_holds(builder, wanted, TileCode::flat(items), merge);
    } else {
      after = merge(builder);
    }
    llvm::append_range(after, TileCode::sync(builder, tiles));
    return after;
  }

  Value first_row_, count_;
};

class MergeEmitter : StepEmitter {
 public:
  MergeEmitter(const SortEmission& emission, size_t launch) : StepEmitter(emission, launch) {}

  Result<void> run() {
    const int64_t tile = step_.span(), pair = 2 * step_.run, tiles_of_pair = pair / tile;
    const auto value = [&](const Expr& expr) { return at(builder_, expr, block_and_thread(), kernel_.place()); };
    const Expr number = indexing::mod(Expr::dim(0), step_.tiles);
    row_ = value(indexing::floor_div(Expr::dim(0), step_.tiles));
    pair_ = I::of_index(builder_, value(indexing::floor_div(number, tiles_of_pair) * pair));
    const Value from = I::of_index(builder_, value(indexing::mod(number, tiles_of_pair) * tile));
    const Value begin = I::of_index(builder_, value(number * tile));
    const Value left = I::subtract(builder_, I::constant(builder_, step_.length), pair_);
    RunPair runs;
    runs.a = pair_;
    runs.a_count = I::minimum(builder_, left, I::constant(builder_, step_.run));
    runs.b = I::add(builder_, pair_, runs.a_count);
    runs.b_count = I::clamp(builder_, I::subtract(builder_, left, runs.a_count), I::constant(builder_, step_.run));
    const Value total = I::add(builder_, runs.a_count, runs.b_count);
    const Value to = I::minimum(builder_, I::add(builder_, from, tile), total);
    const auto [first, last] = split_block(runs, from, to);

    // The parts of both runs that the block merges, one behind the other in shared memory.
    const Value count = I::subtract(builder_, to, from);
    RunPair parts;
    parts.a = I::constant(builder_, 0);
    parts.a_count = I::clamp(builder_, I::subtract(builder_, last, first), count);
    parts.b = parts.a_count;
    parts.b_count = I::subtract(builder_, count, parts.a_count);
    const Value a = I::add(builder_, runs.a, first);
    const Value b = I::subtract(builder_, I::add(builder_, runs.b, I::subtract(builder_, from, first)), parts.a_count);
    Values tiles = TileCode::allocate(builder_, types_, tile + 1);
    std::vector<std::pair<Element, Value>> read_elements;
    for (int64_t i = 0; i < step_.items; ++i) {
      const Value place = I::add(builder_, thread_, i * launch_.threads);
      const Value of_a = I::less(builder_, place, parts.a_count);
      const Value source = I::add(builder_, builder_.create<arith::SelectOp>(of_a, a, b), place);
      read_elements.emplace_back(read(builder_, row_, place_index(builder_, source, step_.length)), place);
    }
    for (const auto& [element, place] : read_elements) tiles = TileCode::store(builder_, element, tiles, place);
    tiles = TileCode::sync(builder_, tiles);
    const Value mine = I::multiply(builder_, thread_, step_.items);
    const Items items = code_.merged(builder_, tiles, parts, I::minimum(builder_, mine, count),
                                     index_constant(builder_, steps_for(tile)));
    tiles = TileCode::sync(builder_, tiles);
    tiles = TileCode::sync(builder_, code_.store_items(builder_, items, tiles, mine));
    for (int64_t i = 0; i < step_.items; ++i) {
      const Value place = I::add(builder_, thread_, i * launch_.threads);
      const Value target = I::add(builder_, begin, place);
      const Value there =
          both(I::less(builder_, place, count), I::less(builder_, target, I::constant(builder_, step_.written)));
      write(there, TileCode::load(builder_, tiles, place), row_, place_index(builder_, target, step_.written));
    }
    return finish();
  }

 private:
  /// How many of the first `from` and of the first `to` elements of the merged runs come from the first run. One half
  /// of the block's threads searches each: they try as many places at once, so that few reads follow each other.
  std::pair<Value, Value> split_block(const RunPair& runs, Value from, Value to) {
    const int64_t searchers = step_.threads / 2;
    const Value half = I::constant(builder_, searchers);
    const Value of_from = I::less(builder_, thread_, half);
    const Value searcher = builder_.create<arith::AndIOp>(thread_, I::constant(builder_, searchers - 1));
    const Value diagonal = builder_.create<arith::SelectOp>(of_from, from, to);
    Value low = I::maximum(builder_, I::constant(builder_, 0), I::subtract(builder_, diagonal, runs.b_count));
    Value high = I::minimum(builder_, diagonal, runs.a_count);
    const Value low_slot =
        builder_.create<arith::SelectOp>(of_from, I::constant(builder_, 0), I::constant(builder_, 2));
    const Value high_slot = I::add(builder_, low_slot, 1);
    Values bounds = TileCode::allocate(builder_, builder_.getI32Type(), 4);
    const Value is_first = compare(builder_, arith::CmpIPredicate::eq, searcher, I::constant(builder_, 0));
    bounds = put_bounds(is_first, bounds, low_slot, low, high_slot, high);
    bounds = TileCode::sync(builder_, bounds);
    for (int64_t width = step_.run; width > 0; width = (width + searchers - 1) / searchers - 1) {
      // The searchers' places cut [low, high] into as many parts. One of them is right before the end of what comes
      // first, or the first one is behind it.
      const Value wide = I::subtract(builder_, high, low);
      const Value part = builder_.create<arith::ShRUIOp>(I::add(builder_, wide, searchers - 1),
                                                         I::constant(builder_, steps_for(searchers) - 1));
      const Value here = I::add(builder_, low, builder_.create<arith::MulIOp>(searcher, part));
      const Value next = I::add(builder_, here, part);
      const Value open = I::less(builder_, here, high);
      const Value comes_first = both(open, a_first(runs, diagonal, here));
      const Value next_too = both(I::less(builder_, next, high), a_first(runs, diagonal, next));
      const Value is_last = both(comes_first, negated(next_too));
      const Value none = both(both(is_first, open), negated(comes_first));
      const Value new_low = builder_.create<arith::SelectOp>(none, low, I::add(builder_, here, 1));
      const Value new_high = builder_.create<arith::SelectOp>(none, low, I::minimum(builder_, next, high));
      const Value found = builder_.create<arith::OrIOp>(is_last, none);
      bounds = TileCode::sync(builder_, put_bounds(found, bounds, low_slot, new_low, high_slot, new_high));
      low = TileCode::load(builder_, bounds, low_slot)[0];
      high = TileCode::load(builder_, bounds, high_slot)[0];
      bounds = TileCode::sync(builder_, bounds);
    }
    const Value first = TileCode::load(builder_, bounds, I::constant(builder_, 0))[0];
    const Value last = TileCode::load(builder_, bounds, I::constant(builder_, 2))[0];
    return {first, last};
  }

  Values put_bounds(Value condition, const Values& bounds, Value low_slot, Value low, Value high_slot, Value high) {
    const auto put = [&](Value value, Value tile, Value slot) -> Value {
      return builder_.create<PredicatedInsertOp>(tile.getType(), condition, value, tile, I::to_index(builder_, slot));
    };
    return {put(high, put(low, bounds[0], low_slot), high_slot)};
  }

  Value negated(Value condition) {
    return builder_.create<arith::XOrIOp>(condition, builder_.create<arith::ConstantIntOp>(1, 1));
  }

  /// Whether element `number` of the first run comes before the element of the second one with which it is one of
  /// the first `diagonal` or not.
  Value a_first(const RunPair& runs, Value diagonal, Value number) {
    const Value of_b = I::add(builder_, I::subtract(builder_, diagonal, number), -1);
    const Value a_place = place_index(builder_, I::add(builder_, runs.a, number), step_.length);
    const Value b_place = place_index(builder_, I::add(builder_, runs.b, of_b), step_.length);
    return negated(code_.less(builder_, read(builder_, row_, b_place), read(builder_, row_, a_place)));
  }

  Value row_, pair_;
};

}  // namespace

Result<void> emit_tiles(const SortEmission& emission, size_t launch) { return TilesEmitter(emission, launch).run(); }

Result<void> emit_merge(const SortEmission& emission, size_t launch) { return MergeEmitter(emission, launch).run(); }

}  // namespace strata::emitters
