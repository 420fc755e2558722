// Which updates go to each row of a scatter: the kernels that find it out.
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include "emitters/dialect/atomic_fetch.h"
#include "emitters/kinds/scatter/index_kernel.h"
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

/// A kernel with a thread for each window, or a few of them: `body` has its number and the temporaries, and gives them
/// afterwards.
using WindowBody = llvm::function_ref<Result<Values>(Builder&, const Kernel&, Value window, Values temporaries)>;
Result<void> emit_for_windows(const RowsEmission& emission, size_t launch, std::vector<size_t> only_read,
                              WindowBody body, int64_t windows = 1) {
  Kernel kernel = emission.kernel(launch, std::move(only_read));
  const indexing::IndexingMap map =
      indexing::simplify(indexing::thread_map(indexing::linear_tiling(
                             {emission.plan.shape.count}, emission.decision.launches[launch].threads, 1, windows)),
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
Value overflows(Builder& builder, const RowsEmission& emission, const Kernel& kernel) {
  const Value flag =
      builder.create<mlir::tensor::ExtractOp>(kernel.temporaries()[static_cast<size_t>(RowTemporary::Rows)],
                                              total_of(builder, emission.plan, Total::Overflows));
  return compare(builder, CmpIPredicate::ne, flag, builder.create<arith::ConstantIntOp>(0, 64));
}

/// Where lists begin. A thread has a row, or, if they are fewer, a window: that of a row's first one without a slot
/// lays out the row's list.
class StartsEmitter : IndexKernel {
 public:
  StartsEmitter(const RowsEmission& emission, size_t launch)
      : IndexKernel(emission, launch,
                    {static_cast<size_t>(RowTemporary::Slots), static_cast<size_t>(RowTemporary::Ranks)}) {}

  /// A block adds up what its rows need, takes that much of the order, and gives each row its part. The order of the
  /// rows' lists does not matter, so nobody waits for a prefix sum.
  Result<void> run() {
    change_if(overflows(builder_, emission_, kernel_), [&](Builder&) { lay_out(); });
    return finish();
  }

 private:
  Value constant(int64_t value) { return builder_.create<arith::ConstantIntOp>(value, 32); }

  /// The row whose list the thread lays out; -1 if there is none.
  Value find_row() {
    const Value none = index_constant(builder_, -1);
    const Value number = at(builder_, Expr::dim(0) * launch_.threads + Expr::dim(1),
                            {indexing::below(launch_.blocks), indexing::below(launch_.threads)}, kernel_.place());
    const int64_t all = plan_.lists_by_row() ? plan_.shape.rows : plan_.shape.count;
    const Value exists = compare(builder_, CmpIPredicate::slt, number, index_constant(builder_, all));
    return if_holds(builder_, exists, none, [&](Builder& inside) {
      if (plan_.lists_by_row()) {
        const Value count = load_count(inside, plan_, temporary(temporaries_, RowTemporary::Rows), number);
        const Value over = compare(inside, CmpIPredicate::sgt, count, index_constant(inside, plan_.slots));
        return Values{inside.create<arith::SelectOp>(over, number, none)};
      }
      const Value rank = load_index(inside, temporary(temporaries_, RowTemporary::Ranks), number);
      const Value first = compare(inside, CmpIPredicate::eq, rank, index_constant(inside, plan_.slots));
      // Windows that do not fit have no rank, but no row either.
      return if_holds(inside, first, none, [&](Builder& innermost) {
        Result<Value> row = row_of(innermost, emission_, kernel_.inputs(), number);
        if (row) return Values{*row};
        error_ = std::move(row).error();
        return Values{none};
      });
    })[0];
  }

  void lay_out() {
    const Value row = find_row();
    const Value exists = compare(builder_, CmpIPredicate::sge, row, index_constant(builder_, 0));
    Value entries = if_holds(builder_, exists, constant(0), [&](Builder& inside) {
      const Value count = load_count(inside, plan_, temporary(temporaries_, RowTemporary::Rows), row);
      const Value over = inside.create<arith::SubIOp>(count, index_constant(inside, plan_.slots));
      return Values{inside.create<arith::IndexCastOp>(inside.getI32Type(), over)};
    })[0];
    Value is_long, chunk_base;
    if (plan_.list_chunks() > 0) {
      is_long = compare(builder_, CmpIPredicate::ugt, entries, constant(plan_.longest_list()));
      const Value rounded = builder_.create<arith::AddIOp>(entries, constant(plan_.chunk - 1));
      const Value chunks = builder_.create<arith::DivUIOp>(rounded, constant(plan_.chunk));
      chunk_base = base(builder_.create<arith::SelectOp>(is_long, chunks, constant(0)), Total::Chunks);
      entries = builder_.create<arith::SelectOp>(is_long, constant(0), entries);
    }
    Value start = base(entries, Total::Entries);
    if (is_long) {
      const Value position = builder_.create<arith::AddIOp>(
          builder_.create<arith::MulIOp>(chunk_base, constant(plan_.chunk)), constant(plan_.first_chunk()));
      start = builder_.create<arith::SelectOp>(is_long, position, start);
    }
    Value& starts = temporary(temporaries_, RowTemporary::Starts);
    starts = if_holds(builder_, exists, starts, [&](Builder& inside) {
      return Values{inside.create<mlir::tensor::InsertOp>(start, starts, row)};
    })[0];
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
      const Value mine_of_all = inside.create<arith::ExtUIOp>(inside.getI64Type(), total);
      auto fetch = inside.create<AtomicFetchOp>(mine_of_all.getType(), rows.getType(), Combiner::Add, mine_of_all, rows,
                                                total_of(inside, plan_, which));
      const Value begin = inside.create<arith::TruncIOp>(inside.getI32Type(), fetch.getOld());
      return Values{inside.create<mlir::tensor::InsertOp>(begin, tile, one), fetch.getResult()};
    });
    rows = after[1];
    tile = sync(after[0]);
    return builder_.create<arith::AddIOp>(builder_.create<mlir::tensor::ExtractOp>(tile, one), within.getOld());
  }

  Value sync(Value tile) { return builder_.create<SyncThreadsOp>(mlir::TypeRange(tile.getType()), tile).getResult(0); }
};

}  // namespace

Result<void> emit_starts(const RowsEmission& emission, size_t launch) { return StartsEmitter(emission, launch).run(); }

Result<void> emit_order(const RowsEmission& emission, size_t launch) {
  const std::vector<size_t> read{static_cast<size_t>(RowTemporary::Rows), static_cast<size_t>(RowTemporary::Slots),
                                 static_cast<size_t>(RowTemporary::Ranks), static_cast<size_t>(RowTemporary::Starts)};
  const ScatterRowsPlan& plan = emission.plan;
  return emit_for_windows(
      emission, launch, read,
      [&](Builder& builder, const Kernel& kernel, Value window, const Values& before) -> Result<Values> {
        std::optional<Error> error;
        const Value any = overflows(builder, emission, kernel);
        const Values result = if_holds(builder, any, before, [&](Builder& inside) {
          const Value rank = load_index(inside, kernel.temporaries()[static_cast<size_t>(RowTemporary::Ranks)], window);
          // Windows that do not fit have no rank, but no row either.
          const Value over = compare(inside, CmpIPredicate::sge, rank, index_constant(inside, plan.slots));
          return if_holds(inside, over, before, [&](Builder& branch) {
            Result<Values> put =
                for_row(branch, emission, kernel, window, before, [&](Builder& innermost, Value row, Values& after) {
                  const Value start = load_index(innermost, temporary(after, RowTemporary::Starts), row);
                  const Value place =
                      at(innermost, Expr::dim(0) + Expr::dim(1) - plan.slots,
                         {indexing::below(plan.positions()), {plan.slots, plan.shape.count}}, {start, rank});
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
      },
      plan.windows_per_thread);
}

Result<void> emit_inverse(const RowsEmission& emission, size_t launch) {
  return emit_for_windows(
      emission, launch, {}, [&](Builder& builder, const Kernel& kernel, Value window, const Values& before) {
        return for_row(builder, emission, kernel, window, before, [&](Builder& inside, Value row, Values& after) {
          Value& rows = temporary(after, RowTemporary::Rows);
          const Value number = inside.create<arith::AddIOp>(window, index_constant(inside, 1));
          rows = store_index(inside, number, rows, record_of(inside, emission.plan, row));
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
            return Values{store_index(branch, window, rows, run_of(branch, emission.plan, row, 1))};
          })[0];
          rows = if_holds(inside, differs(right), rows, [&](Builder& branch) {
            const Value next = branch.create<arith::AddIOp>(window, index_constant(branch, 1));
            return Values{store_index(branch, next, rows, run_of(branch, emission.plan, row, 0))};
          })[0];
        });
      });
}

}  // namespace strata::emitters
