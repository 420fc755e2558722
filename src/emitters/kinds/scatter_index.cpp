// Which updates go to each row of a scatter: the kernels that find it out.
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include "emitters/dialect/atomic_fetch.h"
#include "emitters/kinds/scatter_rows.h"
#include "indexing/simplify.h"
#include "indexing/thread_maps.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
using arith::CmpIPredicate;
using Builder = mlir::ImplicitLocOpBuilder;
using indexing::Expr;
using indexing::Interval;
using mlir::Value;
using mlir::ValueRange;

Value& temporary(Values& temporaries, RowTemporary which) { return temporaries[static_cast<size_t>(which)]; }

/// A kernel with a thread for each window: `body` has its number and the temporaries, and gives them afterwards.
using WindowBody = llvm::function_ref<Result<Values>(Builder&, const Kernel&, Value window, Values temporaries)>;
Result<void> emit_for_windows(const RowsEmission& emission, size_t launch, std::vector<size_t> only_read,
                              WindowBody body) {
  Kernel kernel = emission.kernel(launch, std::move(only_read));
  const indexing::IndexingMap map =
      indexing::simplify(indexing::thread_map(indexing::linear_tiling(
                             {emission.plan.shape.count}, emission.decision.launches[launch].threads, 1, 1)),
                         indexing::UnusedVariables::Keep);
  std::optional<Error> error;
  auto loop = create_loop(kernel.builder(), map, kernel.place(), kernel.temporaries(), std::nullopt,
                          [&](Builder& inside, ValueRange, ValueRange window, ValueRange before) {
                            Result<Values> after = body(inside, kernel, window[0], Values(before));
                            if (after) return *std::move(after);
                            error = std::move(after).error();
                            return Values(before);
                          });
  if (error) return tl::unexpected(std::move(*error));
  kernel.finish(kernel.outputs(), loop.getResults());
  return {};
}

/// The temporaries after `body`, which runs for windows that fit and has their row.
using RowBody = llvm::function_ref<void(Builder&, Value row, Values& temporaries)>;
Result<Values> for_row(Builder& builder, const RowsEmission& emission, const Kernel& kernel, Value window,
                       const Values& temporaries, RowBody body) {
  STRATA_TRY(const Value row, row_of(builder, emission, kernel.inputs(), window));
  const Value fits = compare(builder, CmpIPredicate::sge, row, index_constant(builder, 0));
  return if_holds(builder, fits, temporaries, [&](Builder& inside) {
    Values after = temporaries;
    body(inside, row, after);
    return after;
  });
}

/// Whether some row has more windows than slots.
Value overflows(Builder& builder, const RowsEmission& emission, Value rows) {
  const Value flag =
      builder.create<mlir::tensor::ExtractOp>(rows, total_of(builder, emission.plan, Total::Overflows));
  return compare(builder, CmpIPredicate::ne, flag, builder.create<arith::ConstantIntOp>(0, 32));
}

/// The lists of a few rows of a thread, as kernel "starts" lays them out.
class StartsEmitter {
 public:
  StartsEmitter(const RowsEmission& emission, size_t launch)
      : emission_(emission),
        plan_(emission.plan),
        kernel_(emission.kernel(
            launch, {static_cast<size_t>(RowTemporary::Slots), static_cast<size_t>(RowTemporary::Ranks)})),
        builder_(kernel_.builder()),
        launch_(emission.decision.launches[launch]),
        temporaries_(kernel_.temporaries()) {}

  /// A block adds up what its rows need, takes that much of the order, and gives each row its part. The order of the
  /// rows' lists does not matter, so nobody waits for a prefix sum.
  void run() {
    const Value any = overflows(builder_, emission_, temporary(temporaries_, RowTemporary::Rows));
    const Values before = temporaries_;
    temporaries_ = if_holds(builder_, any, before, [&](Builder&) { return lists(); });
    kernel_.finish(kernel_.outputs(), temporaries_);
  }

 private:
  struct List {
    Value row;
    Value exists;   ///< whether the row has one
    Value entries;  ///< of a short list, i32
    Value chunks;   ///< of a long one, i32; none where there are no long ones
    Value is_long;
  };

  /// The temporaries with the starts of the thread's lists.
  Values lists() {
    read_counts();
    Value entries = constant(0), chunks = constant(0);
    std::vector<Value> first_entry, first_chunk;
    for (const List& list : lists_) {
      first_entry.push_back(entries);
      first_chunk.push_back(chunks);
      entries = builder_.create<arith::AddIOp>(entries, list.entries);
      if (list.chunks) chunks = builder_.create<arith::AddIOp>(chunks, list.chunks);
    }
    Value entry_base = base(entries, Total::Entries);
    Value chunk_base = plan_.list_chunks() > 0 ? base(chunks, Total::Chunks) : Value();
    Value starts = temporary(temporaries_, RowTemporary::Starts);
    for (size_t k = 0; k < lists_.size(); ++k) {
      Value start = builder_.create<arith::AddIOp>(entry_base, first_entry[k]);
      if (chunk_base) {
        const Value chunk = builder_.create<arith::AddIOp>(chunk_base, first_chunk[k]);
        const Value position = builder_.create<arith::AddIOp>(
            builder_.create<arith::MulIOp>(chunk, constant(plan_.chunk)), constant(plan_.first_chunk()));
        start = builder_.create<arith::SelectOp>(lists_[k].is_long, position, start);
      }
      starts = if_holds(builder_, lists_[k].exists, starts, [&](Builder& inside) {
        return Values{inside.create<mlir::tensor::InsertOp>(start, starts, lists_[k].row)};
      })[0];
    }
    temporary(temporaries_, RowTemporary::Starts) = starts;
    return temporaries_;
  }

  Value constant(int64_t value) { return builder_.create<arith::ConstantIntOp>(value, 32); }

  void read_counts() {
    const int64_t per_thread = plan_.rows_per_thread;
    const int64_t all = launch_.blocks * launch_.threads * per_thread;
    const Value rows = temporary(temporaries_, RowTemporary::Rows);
    for (int64_t k = 0; k < per_thread; ++k) {
      List list;
      const Expr number = (Expr::dim(0) * launch_.threads + Expr::dim(1)) * per_thread + k;
      list.row =
          at(builder_, number, {indexing::below(launch_.blocks), indexing::below(launch_.threads)}, kernel_.place());
      Value inside_rows;
      if (all > plan_.shape.rows) {
        inside_rows = compare(builder_, CmpIPredicate::slt, list.row, index_constant(builder_, plan_.shape.rows));
      }
      const Value none = constant(plan_.slots);
      const Value count = if_holds(builder_, inside_rows, none, [&](Builder& inside) {
        return Values{inside.create<mlir::tensor::ExtractOp>(rows, field_of(inside, plan_, list.row, RowField::Count))};
      })[0];
      list.exists = compare(builder_, CmpIPredicate::ugt, count, none);
      const Value over = builder_.create<arith::SubIOp>(count, none);
      list.entries = builder_.create<arith::SelectOp>(list.exists, over, constant(0));
      if (plan_.list_chunks() > 0) {
        const Value entries = list.entries;
        list.is_long = compare(builder_, CmpIPredicate::ugt, entries, constant(plan_.longest_list()));
        const Value rounded = builder_.create<arith::AddIOp>(entries, constant(plan_.chunk - 1));
        const Value chunks = builder_.create<arith::DivUIOp>(rounded, constant(plan_.chunk));
        list.chunks = builder_.create<arith::SelectOp>(list.is_long, chunks, constant(0));
        list.entries = builder_.create<arith::SelectOp>(list.is_long, constant(0), entries);
      }
      lists_.push_back(list);
    }
  }

  /// Where this thread's part of a total begins: `mine` is its size, `which` the total.
  Value base(Value mine, Total which) {
    const auto type = mlir::RankedTensorType::get(
        {2}, builder_.getI32Type(), SharedTileAttr::get(builder_.getContext(), /*padding=*/0, /*chunk=*/0));
    Value tile = builder_.create<AllocateSharedOp>(type);
    const Value zero = index_constant(builder_, 0), one = index_constant(builder_, 1);
    const Value first = compare(builder_, CmpIPredicate::eq, kernel_.thread(), zero);
    tile = sync(builder_.create<PredicatedInsertOp>(tile.getType(), first, constant(0), tile, zero));
    auto within = builder_.create<AtomicFetchOp>(mine.getType(), tile.getType(), Combiner::Add, mine, tile, zero);
    tile = sync(within.getResult());
    Value& rows = temporary(temporaries_, RowTemporary::Rows);
    const Values after = if_holds(builder_, first, {tile, rows}, [&](Builder& inside) {
      const Value total = inside.create<mlir::tensor::ExtractOp>(tile, zero);
      const Value place = total_of(inside, plan_, which);
      auto fetch = inside.create<AtomicFetchOp>(total.getType(), rows.getType(), Combiner::Add, total, rows, place);
      return Values{inside.create<mlir::tensor::InsertOp>(fetch.getOld(), tile, one), fetch.getResult()};
    });
    rows = after[1];
    tile = sync(after[0]);
    return builder_.create<arith::AddIOp>(builder_.create<mlir::tensor::ExtractOp>(tile, one), within.getOld());
  }

  Value sync(Value tile) { return builder_.create<SyncThreadsOp>(mlir::TypeRange(tile.getType()), tile).getResult(0); }

  const RowsEmission& emission_;
  const ScatterRowsPlan& plan_;
  Kernel kernel_;
  Builder& builder_;
  const Launch& launch_;
  Values temporaries_;
  std::vector<List> lists_;
};

}  // namespace

Result<void> emit_count(const RowsEmission& emission, size_t launch) {
  return emit_for_windows(
      emission, launch, {}, [&](Builder& builder, const Kernel& kernel, Value window, const Values& before) {
        return for_row(builder, emission, kernel, window, before, [&](Builder& inside, Value row, Values& after) {
          const ScatterRowsPlan& plan = emission.plan;
          Value& rows = temporary(after, RowTemporary::Rows);
          Value& slots = temporary(after, RowTemporary::Slots);
          Value& ranks = temporary(after, RowTemporary::Ranks);
          const Value one = inside.create<arith::ConstantIntOp>(1, 32);
          auto fetch = inside.create<AtomicFetchOp>(one.getType(), rows.getType(), Combiner::Add, one, rows,
                                                    field_of(inside, plan, row, RowField::Count));
          rows = fetch.getResult();
          const Value rank = fetch.getOld();
          ranks = inside.create<mlir::tensor::InsertOp>(rank, ranks, window);
          const Value number = inside.create<arith::IndexCastUIOp>(inside.getIndexType(), rank);
          const auto compared = [&](CmpIPredicate predicate, int64_t value) {
            return compare(inside, predicate, number, index_constant(inside, value));
          };
          if (plan.first > 0) {
            rows = if_holds(inside, compared(CmpIPredicate::eq, 0), rows, [&](Builder& branch) {
              return Values{store_index(branch, window, rows, field_of(branch, plan, row, RowField::First))};
            })[0];
          }
          slots = if_holds(inside, compared(CmpIPredicate::slt, plan.slots), slots, [&](Builder& branch) {
            return Values{store_index(branch, window, slots, slot_of(branch, plan, row, number))};
          })[0];
          rows = if_holds(inside, compared(CmpIPredicate::sge, plan.slots), rows, [&](Builder& branch) {
            return Values{
                branch.create<mlir::tensor::InsertOp>(one, rows, total_of(branch, plan, Total::Overflows))};
          })[0];
        });
      });
}

Result<void> emit_starts(const RowsEmission& emission, size_t launch) {
  StartsEmitter(emission, launch).run();
  return {};
}

Result<void> emit_order(const RowsEmission& emission, size_t launch) {
  const std::vector<size_t> read{static_cast<size_t>(RowTemporary::Rows), static_cast<size_t>(RowTemporary::Slots),
                                 static_cast<size_t>(RowTemporary::Ranks), static_cast<size_t>(RowTemporary::Starts)};
  const ScatterRowsPlan& plan = emission.plan;
  return emit_for_windows(
      emission, launch, read,
      [&](Builder& builder, const Kernel& kernel, Value window, const Values& before) -> Result<Values> {
        std::optional<Error> error;
        const Value any = overflows(builder, emission, kernel.temporaries()[0]);
        const Values result = if_holds(builder, any, before, [&](Builder& inside) {
          const Value rank = load_index(inside, kernel.temporaries()[static_cast<size_t>(RowTemporary::Ranks)], window);
          // Windows that do not fit have no rank, but no row either.
          const Value over = compare(inside, CmpIPredicate::sge, rank, index_constant(inside, plan.slots));
          return if_holds(inside, over, before, [&](Builder& branch) {
            Result<Values> put =
                for_row(branch, emission, kernel, window, before, [&](Builder& innermost, Value row, Values& after) {
                  const Value start = load_index(innermost, temporary(after, RowTemporary::Starts), row);
                  const Value place = at(innermost, Expr::dim(0) + Expr::dim(1) - plan.slots,
                                         {indexing::below(plan.positions()), {plan.slots, plan.shape.count}},
                                         {start, rank});
                  Value& order = temporary(after, RowTemporary::Order);
                  order = store_index(innermost, window, order, place);
                });
            if (put) return *std::move(put);
            error = std::move(put).error();
            return before;
          });
        });
        if (error) return tl::unexpected(std::move(*error));
        return result;
      });
}

Result<void> emit_inverse(const RowsEmission& emission, size_t launch) {
  return emit_for_windows(
      emission, launch, {}, [&](Builder& builder, const Kernel& kernel, Value window, const Values& before) {
        return for_row(builder, emission, kernel, window, before, [&](Builder& inside, Value row, Values& after) {
          Value& rows = temporary(after, RowTemporary::Rows);
          const Value number = inside.create<arith::AddIOp>(window, index_constant(inside, 1));
          rows = store_index(inside, number, rows, field_of(inside, emission.plan, row, RowField::Count));
        });
      });
}

Result<void> emit_ends(const RowsEmission& emission, size_t launch) {
  const int64_t count = emission.plan.shape.count;
  return emit_for_windows(
      emission, launch, {},
      [&](Builder& builder, const Kernel& kernel, Value window, const Values& before) -> Result<Values> {
        // The neighbours' rows; their own for those at the ends.
        const auto neighbour = [&](int64_t distance, int64_t end) -> Result<std::pair<Value, Value>> {
          const Value at_end = compare(builder, CmpIPredicate::eq, window, index_constant(builder, end));
          const Value beside = builder.create<arith::AddIOp>(window, index_constant(builder, distance));
          const Value number = builder.create<arith::SelectOp>(at_end, window, beside);
          STRATA_TRY(const Value row, row_of(builder, emission, kernel.inputs(), number));
          return std::pair{at_end, row};
        };
        STRATA_TRY(const auto left, neighbour(-1, 0));
        STRATA_TRY(const auto right, neighbour(1, count - 1));
        return for_row(builder, emission, kernel, window, before, [&](Builder& inside, Value row, Values& after) {
          const auto differs = [&](const std::pair<Value, Value>& beside) -> Value {
            return inside.create<arith::OrIOp>(beside.first, compare(inside, CmpIPredicate::ne, beside.second, row));
          };
          Value& rows = temporary(after, RowTemporary::Rows);
          rows = if_holds(inside, differs(left), rows, [&](Builder& branch) {
            return Values{store_index(branch, window, rows, field_of(branch, emission.plan, row, RowField::First))};
          })[0];
          rows = if_holds(inside, differs(right), rows, [&](Builder& branch) {
            const Value next = branch.create<arith::AddIOp>(window, index_constant(branch, 1));
            return Values{store_index(branch, next, rows, field_of(branch, emission.plan, row, RowField::Count))};
          })[0];
        });
      });
}

}  // namespace strata::emitters
