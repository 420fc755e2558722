// The kernel of a scatter whose blocks look through all indices.
#include "emitters/kinds/scatter/scanned.h"

#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include "emitters/dialect/atomic_fetch.h"
#include "emitters/dialect/dialect.h"
#include "emitters/kinds/scatter/elements.h"
#include "indexing/memory_access.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
using arith::CmpIPredicate;
using Builder = mlir::ImplicitLocOpBuilder;
using indexing::Expr;
using indexing::IndexingMap;
using mlir::Value;
using mlir::ValueRange;

class ScannedEmitter {
 public:
  ScannedEmitter(const RowsEmission& emission, const ScannedPlan& plan)
      : emission_(emission),
        plan_(plan),
        shape_(plan.shape()),
        kernel_(emission.kernel(0, {})),
        builder_(kernel_.builder()),
        code_(emission, kernel_, plan.rows_plan.vector),
        output_(emission.functions.arguments().outputs[0]) {
    const std::vector<indexing::Interval> block{indexing::below(plan.blocks())};
    const Expr group = indexing::floor_div(Expr::dim(0), plan.parts);
    first_row_ = at(builder_, group * plan.block_rows, block, kernel_.block());
    part_ = at(builder_, indexing::mod(Expr::dim(0), plan.parts), block, kernel_.block());
  }

  Result<void> run() {
    put_in_order();
    Values outputs(kernel_.outputs());
    if (plan_.longest > 0) {
      const Value some = compare(builder_, CmpIPredicate::sgt, entries_, index_constant(builder_, plan_.longest));
      outputs = if_holds(builder_, some, outputs, [&](Builder& inside) { return long_rows(inside, outputs); });
    }
    outputs = short_rows(outputs);
    if (!error_) error_ = code_.error();
    if (error_) return tl::unexpected(std::move(*error_));
    kernel_.finish(outputs);
    return {};
  }

 private:
  Value small(Builder& builder, int64_t value) { return builder.create<arith::ConstantIntOp>(value, 32); }
  Value small_of(Builder& builder, Value index) {
    return builder.create<arith::IndexCastOp>(builder.getI32Type(), index);
  }
  Value tile(int64_t elements) {
    return builder_.create<AllocateSharedOp>(mlir::RankedTensorType::get(
        {elements}, builder_.getI32Type(), SharedTileAttr::get(builder_.getContext(), /*padding=*/0, /*chunk=*/0)));
  }
  Value thread_of(Builder& builder, const Expr& expr) {
    return at(builder, expr, {indexing::below(plan_.threads)}, kernel_.thread());
  }
  Values sync(Builder& builder, const Values& tiles) {
    return Values(builder.create<SyncThreadsOp>(mlir::TypeRange(ValueRange(tiles)), tiles).getResults());
  }
  Value is_below(Builder& builder, Value value, int64_t end) {
    return compare(builder, CmpIPredicate::slt, value, index_constant(builder, end));
  }

  /// `body` for the windows of the thread: `place` has the window's number, from the number among the thread's.
  using WindowBody = llvm::function_ref<Values(Builder&, Value window, const Values& before)>;
  Values for_windows(const Expr& place, const Values& before, WindowBody body) {
    IndexingMap map;
    map.dims = {indexing::below(plan_.threads)};
    map.ranges = {indexing::below(plan_.thread_windows())};
    map.results = {place};
    auto loop = create_loop(builder_, map, kernel_.thread(), before, std::nullopt,
                            [&](Builder& inside, ValueRange, ValueRange window, ValueRange carried) {
                              return body(inside, window[0], Values(carried));
                            });
    return Values(loop.getResults());
  }

  /// The windows of each of the block's rows one after the other, in the order of their numbers: row r's are those of
  /// `order_` from `starts_[r]` to `starts_[r + 1]`.
  void put_in_order() {
    Value found = mark_windows(tile(plan_.thread_windows() * plan_.threads));
    Value counts = tile(plan_.block_rows);
    const Value is_row = is_below(builder_, kernel_.thread(), plan_.block_rows);
    counts = if_holds(builder_, is_row, counts, [&](Builder& inside) {
      return Values{inside.create<mlir::tensor::InsertOp>(small(inside, 0), counts, kernel_.thread())};
    })[0];
    const Values marked = sync(builder_, {found, counts});
    found = marked[0];
    // A thread has windows that follow each other. How many are there?
    const Expr mine = Expr::dim(0) * plan_.thread_windows() + Expr::range(0);
    const Values counted =
        for_windows(mine, {small(builder_, 0), marked[1]}, [&](Builder& inside, Value window, const Values& before) {
          const Value row = inside.create<mlir::tensor::ExtractOp>(found, window);
          return if_holds(inside, has_row(inside, row), before, [&](Builder& innermost) {
            const Value place = innermost.create<arith::IndexCastOp>(innermost.getIndexType(), row);
            const Value one = small(innermost, 1);
            auto fetch = innermost.create<AtomicFetchOp>(one.getType(), before[1].getType(), Combiner::Add, one,
                                                         before[1], place);
            return Values{innermost.create<arith::AddIOp>(before[0], one), fetch.getResult()};
          });
        });
    const auto [first, total] = sum_before(counted[0]);
    entries_ = builder_.create<arith::IndexCastUIOp>(builder_.getIndexType(), total);
    const Values listed =
        for_windows(mine, {first, tile(shape_.count)}, [&](Builder& inside, Value window, const Values& before) {
          const Value row = inside.create<mlir::tensor::ExtractOp>(found, window);
          return if_holds(inside, has_row(inside, row), before, [&](Builder& innermost) {
            const Value upper = innermost.create<arith::ShLIOp>(row, small(innermost, 16));
            const Value entry = innermost.create<arith::OrIOp>(upper, small_of(innermost, window));
            const Value place = innermost.create<arith::IndexCastOp>(innermost.getIndexType(), before[0]);
            return Values{innermost.create<arith::AddIOp>(before[0], small(innermost, 1)),
                          innermost.create<mlir::tensor::InsertOp>(entry, before[1], place)};
          });
        });
    const Values tiles = sync(builder_, {listed[1], counted[1], found});
    lay_out_rows(is_row, tiles[0], tiles[1], tiles[2]);
  }

  Value has_row(Builder& builder, Value row) { return compare(builder, CmpIPredicate::sge, row, small(builder, 0)); }

  /// For each window which of the block's rows it goes to; -1 if to none.
  Value mark_windows(Value found) {
    const bool all = plan_.thread_windows() * plan_.threads == shape_.count;
    return for_windows(Expr::range(0) * plan_.threads + Expr::dim(0), {found},
                       [&](Builder& inside, Value window, const Values& before) {
                         Value row;
                         if (all) {
                           row = row_in_block(inside, window);
                         } else {  // past the end the first one is read again: no load waits for a branch
                           const Value exists = is_below(inside, window, shape_.count);
                           const Value first = index_constant(inside, 0);
                           const Value number = inside.create<arith::SelectOp>(exists, window, first);
                           row =
                               inside.create<arith::SelectOp>(exists, row_in_block(inside, number), small(inside, -1));
                         }
                         return Values{inside.create<mlir::tensor::InsertOp>(row, before[0], window)};
                       })[0];
  }

  Value row_in_block(Builder& builder, Value window) {
    const Result<Value> row = row_of(builder, emission_, kernel_.inputs(), window);
    if (!row) {
      error_ = row.error();
      return small(builder, -1);
    }
    const Value within = builder.create<arith::SubIOp>(*row, first_row_);
    // Windows that do not fit have row -1, which is below the first one of every block.
    const Value is_here = compare(builder, CmpIPredicate::ult, within, index_constant(builder, plan_.block_rows));
    return builder.create<arith::SelectOp>(is_here, small_of(builder, within), small(builder, -1));
  }

  /// What the threads before have, and all together.
  std::pair<Value, Value> sum_before(Value mine) {
    const int64_t warps = plan_.threads / indexing::kWarpSize;
    const Value lane = thread_of(builder_, indexing::mod(Expr::dim(0), indexing::kWarpSize));
    const Value warp = thread_of(builder_, indexing::floor_div(Expr::dim(0), indexing::kWarpSize));
    const auto shuffled = [&](Value value, Value from) {
      return builder_.create<ShuffleIndexOp>(mlir::TypeRange(value.getType()), ValueRange(value), from).getResult(0);
    };
    Value sum = mine;
    for (int64_t distance = 1; distance < indexing::kWarpSize; distance *= 2) {
      const Value from =
          thread_of(builder_, indexing::mod(Expr::dim(0) + (indexing::kWarpSize - distance), indexing::kWarpSize));
      const Value has = compare(builder_, CmpIPredicate::sge, lane, index_constant(builder_, distance));
      const Value more = builder_.create<arith::AddIOp>(sum, shuffled(sum, from));
      sum = builder_.create<arith::SelectOp>(has, more, sum);
    }
    Value totals = tile(warps);
    const Value is_last = compare(builder_, CmpIPredicate::eq, lane, index_constant(builder_, indexing::kWarpSize - 1));
    totals = sync(builder_, {builder_.create<PredicatedInsertOp>(totals.getType(), is_last, sum, totals, warp)})[0];
    Value before = builder_.create<arith::SubIOp>(sum, mine), total = small(builder_, 0);
    for (int64_t w = 0; w < warps; ++w) {
      const Value other = builder_.create<mlir::tensor::ExtractOp>(totals, index_constant(builder_, w));
      const Value counts = compare(builder_, CmpIPredicate::sgt, warp, index_constant(builder_, w));
      const Value added = builder_.create<arith::AddIOp>(before, other);
      before = builder_.create<arith::SelectOp>(counts, added, before);
      total = builder_.create<arith::AddIOp>(total, other);
    }
    return {before, total};
  }

  /// `starts_` and `order_`: a thread has a row, and goes through the list for its windows. The order lies where the
  /// marks were.
  void lay_out_rows(Value is_row, Value list, Value counts, Value order) {
    const Value count = if_holds(builder_, is_row, small(builder_, 0), [&](Builder& inside) {
      return Values{inside.create<mlir::tensor::ExtractOp>(counts, kernel_.thread())};
    })[0];
    const Value start = sum_before(count).first;
    const Value is_end = is_below(builder_, kernel_.thread(), plan_.block_rows + 1);
    Value starts = tile(plan_.block_rows + 1);
    starts = builder_.create<PredicatedInsertOp>(starts.getType(), is_end, start, starts, kernel_.thread());
    const Value any = compare(builder_, CmpIPredicate::sgt, count, small(builder_, 0));
    order = if_holds(builder_, any, order, [&](Builder& inside) {
      const Value mine = small_of(inside, kernel_.thread());
      auto loop = inside.create<mlir::scf::ForOp>(index_constant(inside, 0), entries_, index_constant(inside, 1),
                                                  ValueRange{start, order});
      if (!loop.getBody()->empty()) loop.getBody()->getTerminator()->erase();
      Builder body(inside.getLoc(), inside.getContext());
      body.setInsertionPointToStart(loop.getBody());
      const Values before(loop.getRegionIterArgs());
      const Value entry = body.create<mlir::tensor::ExtractOp>(list, loop.getInductionVar());
      const Value row = body.create<arith::ShRUIOp>(entry, small(body, 16));
      const Values after = if_holds(body, compare(body, CmpIPredicate::eq, row, mine), before, [&](Builder& innermost) {
        const Value window = innermost.create<arith::AndIOp>(entry, small(innermost, 0xffff));
        const Value place = innermost.create<arith::IndexCastOp>(innermost.getIndexType(), before[0]);
        return Values{innermost.create<arith::AddIOp>(before[0], small(innermost, 1)),
                      innermost.create<mlir::tensor::InsertOp>(window, before[1], place)};
      });
      body.create<mlir::scf::YieldOp>(after);
      return Values{loop.getResult(1)};
    })[0];
    const Values tiles = sync(builder_, {starts, order});
    starts_ = tiles[0];
    order_ = tiles[1];
  }

  /// A vector of the block's rows.
  struct Vector {
    Value row;     ///< of the output
    Value number;  ///< of the row's vectors
    Value begin, end;
  };

  /// Where the windows of a row of the block are.
  std::pair<Value, Value> windows_of(Builder& builder, Value row_in_block) {
    const Value next = at(builder, Expr::dim(0) + 1, {indexing::below(plan_.block_rows)}, row_in_block);
    return {load_index(builder, starts_, row_in_block), load_index(builder, starts_, next)};
  }

  /// Vector `number` of the part of a row of the block; `then` gives the outputs after it, where it exists.
  Values with_vector(Builder& builder, Value row_in_block, Value number, const Values& outputs,
                     llvm::function_ref<Values(Builder&, Vector)> then) {
    Vector vector;
    vector.row = builder.create<arith::AddIOp>(first_row_, row_in_block);
    vector.number = at(builder, Expr::dim(0) * plan_.part_vectors() + Expr::dim(1),
                       {indexing::below(plan_.parts), indexing::below(plan_.part_vectors())}, {part_, number});
    Value exists;
    if (plan_.row_groups() * plan_.block_rows != shape_.rows) exists = is_below(builder, vector.row, shape_.rows);
    if (plan_.parts * plan_.part_vectors() != plan_.row_vectors()) {
      const Value of_row = is_below(builder, vector.number, plan_.row_vectors());
      exists = exists ? builder.create<arith::AndIOp>(exists, of_row).getResult() : of_row;
    }
    return if_holds(builder, exists, outputs, [&](Builder& inside) {
      std::tie(vector.begin, vector.end) = windows_of(inside, row_in_block);
      if (!shape_.covered.constraints.empty()) {
        const Values index = output_index(inside, vector, index_constant(inside, 0));
        const Value reaches = constraints_hold(inside, shape_.covered, shape_.covered.constraints, {index, {}, {}});
        vector.end = inside.create<arith::SelectOp>(reaches, vector.end, vector.begin);
      }
      return then(inside, vector);
    });
  }

  /// The index of the output at element `v` of a vector.
  Values output_index(Builder& builder, const Vector& vector, Value v) {
    IndexingMap map;
    map.dims = {indexing::below(shape_.rows), indexing::below(plan_.row_vectors())};
    map.ranges = {indexing::below(plan_.rows_plan.vector)};
    map.results = {Expr::dim(0), Expr::dim(1) * plan_.rows_plan.vector + Expr::range(0)};
    map = indexing::simplify(indexing::compose(map, shape_.output_of_row), indexing::UnusedVariables::Keep);
    return apply_map(builder, map, {{vector.row, vector.number}, {v}, {}});
  }

  ElementCode::Entries updates(const Vector& vector, Value begin, Value end, int64_t stride = 1) {
    const auto find = [this](Builder& inside, Value place) { return load_index(inside, order_, place); };
    const auto read = [this, vector](Builder& inside, Value window) {
      return code_.read(inside, shape_.updates, [&](Builder& innermost, Value v) {
        Values index = output_index(innermost, vector, v);
        index.push_back(window);
        return apply_map(innermost, shape_.update_of_output, {index, {}, {}});
      });
    };
    return {begin, end, /*wide=*/false, plan_.rows_plan.batch, find, read, stride};
  }

  Elements operand(Builder& builder, const Vector& vector) {
    return code_.read(builder, shape_.operands,
                      [&](Builder& inside, Value v) { return output_index(inside, vector, v); });
  }

  Values stored(Builder& builder, const Vector& vector, const Elements& state, const Values& outputs) {
    IndexingMap elements;
    elements.ranges = {indexing::below(plan_.rows_plan.vector)};
    const IndexingMap position = position_map(output_);
    auto loop = create_loop(
        builder, elements, {}, outputs, 0, [&](Builder& inside, ValueRange ranges, ValueRange, ValueRange before) {
          const Values values = code_.element(inside, state, ranges[0]);
          const Values place = apply_map(inside, position, {output_index(inside, vector, ranges[0]), {}, {}});
          Values after;
          for (size_t i = 0; i < values.size(); ++i) {
            after.push_back(inside.create<mlir::tensor::InsertOp>(values[i], before[i], place));
          }
          return after;
        });
    return Values(loop.getResults());
  }

  /// The outputs with all rows but long ones. A thread has a vector and takes its updates one after the other.
  Values short_rows(const Values& outputs) {
    const int64_t vectors = plan_.block_rows * plan_.part_vectors();
    IndexingMap map;
    map.dims = {indexing::below(plan_.threads)};
    map.ranges = {indexing::below(indexing::ceil_div(vectors, plan_.threads))};
    map.results = {Expr::range(0) * plan_.threads + Expr::dim(0)};
    map.constraints = {{map.results[0], indexing::below(vectors)}};
    map = indexing::simplify(map, indexing::UnusedVariables::Keep);
    auto loop = create_loop(
        builder_, map, kernel_.thread(), outputs, std::nullopt,
        [&](Builder& inside, ValueRange, ValueRange item, ValueRange before) {
          const std::vector<indexing::Interval> items{indexing::below(vectors)};
          const Value row = at(inside, indexing::floor_div(Expr::dim(0), plan_.part_vectors()), items, item[0]);
          const Value number = at(inside, indexing::mod(Expr::dim(0), plan_.part_vectors()), items, item[0]);
          return with_vector(inside, row, number, Values(before), [&](Builder& innermost, const Vector& vector) {
            return short_row(innermost, vector, Values(before));
          });
        });
    return Values(loop.getResults());
  }

  Values short_row(Builder& builder, const Vector& vector, const Values& outputs) {
    Value is_short;
    if (plan_.longest > 0) {
      const Value count = builder.create<arith::SubIOp>(vector.end, vector.begin);
      is_short = compare(builder, CmpIPredicate::sle, count, index_constant(builder, plan_.longest));
    }
    return if_holds(builder, is_short, outputs, [&](Builder& inside) {
      const Elements before = operand(inside, vector);
      const Value any = compare(inside, CmpIPredicate::slt, vector.begin, vector.end);
      const Values state = if_holds(inside, any, before, [&](Builder& innermost) {
        Value begin = vector.begin;
        if (plan_.rows_plan.replaces) {  // the last one stays
          begin = innermost.create<arith::SubIOp>(vector.end, index_constant(innermost, 1));
        }
        const Elements wide = code_.widen_all(innermost, before);
        return code_.narrow_all(innermost, code_.fold(innermost, updates(vector, begin, vector.end), wide));
      });
      return stored(inside, vector, state, outputs);
    });
  }

  /// The outputs with the long rows. Groups of threads, each of which has all vectors of a row, take every n-th update,
  /// and meet in shared memory.
  Values long_rows(Builder& builder, const Values& outputs) {
    const int64_t groups = plan_.thread_groups(), per_row = plan_.part_vectors();
    const auto type =
        mlir::RankedTensorType::get({groups, per_row * plan_.rows_plan.vector}, code_.wide_types(builder)[0],
                                    SharedTileAttr::get(builder.getContext(), /*padding=*/0, /*chunk=*/0));
    Values carried{builder.create<AllocateSharedOp>(type)};
    llvm::append_range(carried, outputs);
    IndexingMap rows;
    rows.ranges = {indexing::below(plan_.block_rows)};
    rows.results = {Expr::range(0)};
    auto loop = create_loop(
        builder, rows, {}, carried, std::nullopt, [&](Builder& inside, ValueRange, ValueRange row, ValueRange before) {
          const auto [begin, end] = windows_of(inside, row[0]);
          const Value count = inside.create<arith::SubIOp>(end, begin);
          const Value is_long = compare(inside, CmpIPredicate::sgt, count, index_constant(inside, plan_.longest));
          return if_holds(inside, is_long, before,
                          [&](Builder& innermost) { return long_row(innermost, row[0], Values(before)); });
        });
    return Values(loop.getResults().drop_front());
  }

  /// `carried`: the tile where groups meet, and the outputs.
  Values long_row(Builder& builder, Value row, const Values& carried) {
    const int64_t groups = plan_.thread_groups(), per_row = plan_.part_vectors(), width = plan_.rows_plan.vector;
    const Value group = thread_of(builder, indexing::floor_div(Expr::dim(0), per_row));
    const Value number = thread_of(builder, indexing::mod(Expr::dim(0), per_row));
    const Value busy = groups * per_row == plan_.threads ? Value() : is_below(builder, group, groups);
    const auto element = [&, number](Builder& inside, Value v) {
      return at(inside, Expr::dim(0) * width + Expr::dim(1), {indexing::below(per_row), indexing::below(width)},
                {number, v});
    };
    Value meeting = if_holds(builder, busy, carried[0], [&](Builder& inside) {
      return with_vector(inside, row, number, Values{carried[0]}, [&](Builder& innermost, const Vector& vector) {
        const Value any = compare(innermost, CmpIPredicate::slt, vector.begin, vector.end);
        return if_holds(innermost, any, Values{carried[0]}, [&](Builder& where) {
          const Value begin = where.create<arith::AddIOp>(vector.begin, group);
          const Elements part = code_.fold(where, updates(vector, begin, vector.end, groups));
          IndexingMap map;
          map.ranges = {indexing::below(width)};
          return Values(
              create_loop(where, map, {}, carried[0], 0, [&](Builder& in, ValueRange v, ValueRange, ValueRange before) {
                const Value value = code_.element(in, part, v[0])[0];
                return Values{in.create<mlir::tensor::InsertOp>(value, before[0], Values{group, element(in, v[0])})};
              }).getResults());
        });
      });
    })[0];
    meeting = sync(builder, {meeting})[0];
    const auto read = [&](Builder& inside, Value of) {
      return code_.for_each(inside, code_.wide_types(inside), [&](Builder& innermost, Value v) {
        return Values{innermost.create<mlir::tensor::ExtractOp>(meeting, Values{of, element(innermost, v)})};
      });
    };
    const Values outputs(llvm::drop_begin(carried));
    const Value is_first = compare(builder, CmpIPredicate::eq, group, index_constant(builder, 0));
    const Values after = if_holds(builder, is_first, outputs, [&](Builder& inside) {
      return with_vector(inside, row, number, outputs, [&](Builder& innermost, const Vector& vector) {
        const Value any = compare(innermost, CmpIPredicate::slt, vector.begin, vector.end);
        // Where windows leave a part of the row out, nothing was put into the tile, and short_rows writes it.
        return if_holds(innermost, any, outputs, [&](Builder& where) {
          const ElementCode::Entries parts{index_constant(where, 0),
                                           index_constant(where, groups),
                                           /*wide=*/true,
                                           4,
                                           [](Builder&, Value of) { return of; },
                                           read};
          const Elements wide = code_.widen_all(where, operand(where, vector));
          return stored(where, vector, code_.narrow_all(where, code_.fold(where, parts, wide)), outputs);
        });
      });
    });
    Values next{sync(builder, {meeting})[0]};
    llvm::append_range(next, after);
    return next;
  }

  const RowsEmission& emission_;
  const ScannedPlan& plan_;
  const ScatterRows& shape_;
  Kernel kernel_;
  Builder& builder_;
  ElementCode code_;
  const hlo::Shape& output_;
  Value first_row_, part_;
  Value entries_, starts_, order_;
  std::optional<Error> error_;
};

}  // namespace

Result<void> emit_scanned(const RowsEmission& emission, const ScannedPlan& plan) {
  return ScannedEmitter(emission, plan).run();
}

}  // namespace strata::emitters
