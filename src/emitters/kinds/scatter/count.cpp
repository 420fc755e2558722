// How many updates go to each row of a scatter: the kernel that counts them and gives each its place.
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include "emitters/dialect/atomic_fetch.h"
#include "emitters/kinds/scatter/index_kernel.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
using arith::CmpIPredicate;
using Builder = mlir::ImplicitLocOpBuilder;
using indexing::Expr;
using mlir::Value;

class CountEmitter : IndexKernel {
 public:
  CountEmitter(const RowsEmission& emission, size_t launch) : IndexKernel(emission, launch, {}) {}

  Result<void> run() {
    if (plan_.tally == 0) {
      one_by_one();
    } else {
      by_block();
    }
    return finish();
  }

 private:
  Value& temporary(RowTemporary which) { return temporaries_[static_cast<size_t>(which)]; }
  Value small(Builder& builder, int64_t value) { return builder.create<arith::ConstantIntOp>(value, 32); }
  Value large(Builder& builder, int64_t value) { return builder.create<arith::ConstantIntOp>(value, 64); }

  /// Window number `k` of the thread, and its row; -1 if it has none.
  std::pair<Value, Value> window_and_row(int64_t k, int64_t of_thread) {
    const Expr number = (Expr::dim(0) * of_thread + k) * launch_.threads + Expr::dim(1);
    const Value window =
        at(builder_, number, {indexing::below(launch_.blocks), indexing::below(launch_.threads)}, kernel_.place());
    const Value exists = compare(builder_, CmpIPredicate::slt, window, index_constant(builder_, plan_.shape.count));
    const Value row = if_holds(builder_, exists, index_constant(builder_, -1), [&](Builder& inside) {
      Result<Value> found = row_of(inside, emission_, kernel_.inputs(), window);
      if (found) return Values{*found};
      error_ = std::move(found).error();
      return Values{index_constant(inside, -1)};
    })[0];
    return {window, row};
  }

  Value is_row(Value row) { return compare(builder_, CmpIPredicate::sge, row, index_constant(builder_, 0)); }

  /// A thread has one window and adds it to its row's record.
  void one_by_one() {
    const auto [window, row] = window_and_row(0, 1);
    change_if(is_row(row), [&](Builder& inside) {
      // One more, and its number for who comes alone: most do, and store nothing more.
      Value more = large(inside, 1);
      if (plan_.first > 0) {
        const Value number = inside.create<arith::IndexCastOp>(inside.getI64Type(), window);
        more = inside.create<arith::OrIOp>(inside.create<arith::ShLIOp>(number, large(inside, 32)), more);
      }
      const auto [rank, others] = record_fields(inside, add_to_record(inside, row, more));
      put(inside, window, row, rank, others);
    });
  }

  Value add_to_record(Builder& builder, Value row, Value more) {
    Value& rows = temporary(RowTemporary::Rows);
    auto fetch = builder.create<AtomicFetchOp>(more.getType(), rows.getType(), Combiner::Add, more, rows,
                                               record_of(builder, plan_, row));
    rows = fetch.getResult();
    return fetch.getOld();
  }

  /// A block counts its windows in shared memory, and then adds what each row has to its record.
  void by_block() {
    assert(plan_.first == 0 && "rows that many come to have no window of their own in the record");
    const auto type =
        mlir::RankedTensorType::get({plan_.shape.rows}, builder_.getI32Type(),
                                    SharedTileAttr::get(builder_.getContext(), /*padding=*/0, /*chunk=*/0));
    Value tile = builder_.create<AllocateSharedOp>(type);
    tile = for_rows(tile, [&](Builder& inside, Value row, Value counts) -> Value {
      return inside.create<mlir::tensor::InsertOp>(small(inside, 0), counts, row);
    });
    tile = sync(tile);
    struct Window {
      Value number, row, rank;
    };
    std::vector<Window> windows;
    for (int64_t k = 0; k < plan_.tally; ++k) {
      const auto [number, row] = window_and_row(k, plan_.tally);
      windows.push_back({number, row, {}});
    }
    for (Window& one : windows) {
      const Values after = if_holds(builder_, is_row(one.row), {small(builder_, 0), tile}, [&](Builder& inside) {
        const Value add = small(inside, 1);
        auto fetch = inside.create<AtomicFetchOp>(add.getType(), type, Combiner::Add, add, tile, one.row);
        return Values{fetch.getOld(), fetch.getResult()};
      });
      one.rank = after[0];
      tile = after[1];
    }
    tile = sync(tile);
    tile = for_rows(tile, [&](Builder& inside, Value row, Value counts) -> Value {
      const Value count = inside.create<mlir::tensor::ExtractOp>(counts, row);
      const Value more = inside.create<arith::ExtUIOp>(inside.getI64Type(), count);
      const Value before = inside.create<arith::TruncIOp>(inside.getI32Type(), add_to_record(inside, row, more));
      return inside.create<mlir::tensor::InsertOp>(before, counts, row);
    });
    tile = sync(tile);
    for (const Window& one : windows) {
      change_if(is_row(one.row), [&](Builder& inside) {
        const Value before = inside.create<mlir::tensor::ExtractOp>(tile, one.row);
        const Value rank = inside.create<arith::AddIOp>(before, one.rank);
        put(inside, one.number, one.row, inside.create<arith::IndexCastUIOp>(inside.getIndexType(), rank), {});
      });
    }
  }

  /// The tile after `body` for all rows, which the block's threads share.
  Value for_rows(Value tile, llvm::function_ref<Value(Builder&, Value row, Value tile)> body) {
    for (int64_t first = 0; first < plan_.shape.rows; first += launch_.threads) {
      const Value row = at(builder_, Expr::dim(0) + first, {indexing::below(launch_.threads)}, kernel_.thread());
      const bool all = first + launch_.threads <= plan_.shape.rows;
      Value exists;
      if (!all) exists = compare(builder_, CmpIPredicate::slt, row, index_constant(builder_, plan_.shape.rows));
      Values before = temporaries_;
      before.push_back(tile);
      Values after = if_holds(builder_, exists, before, [&](Builder& inside) {
        const Value changed = body(inside, row, tile);
        Values inner = temporaries_;
        inner.push_back(changed);
        return inner;
      });
      tile = after.pop_back_val();
      temporaries_ = after;
    }
    return tile;
  }

  Value sync(Value tile) { return builder_.create<SyncThreadsOp>(mlir::TypeRange(tile.getType()), tile).getResult(0); }

  /// Stores which of its row's windows this one is, and puts it in a slot. `others` is the sum of those before it.
  void put(Builder& builder, Value window, Value row, Value rank, Value others) {
    Value& rows = temporary(RowTemporary::Rows);
    Value& slots = temporary(RowTemporary::Slots);
    Value& ranks = temporary(RowTemporary::Ranks);
    ranks = store_index(builder, rank, ranks, window);
    const auto compared = [&](CmpIPredicate predicate, int64_t value) {
      return compare(builder, predicate, rank, index_constant(builder, value));
    };
    const auto store = [&](Value condition, Value slot, Value number) {
      slots = if_holds(builder, condition, slots, [&](Builder& inside) {
        return Values{store_index(inside, number, slots, slot_of(inside, plan_, row, slot))};
      })[0];
    };
    Value has_slot = compared(CmpIPredicate::slt, plan_.slots);
    if (plan_.first > 0) {
      store(compared(CmpIPredicate::eq, 1), index_constant(builder, 0), others);
      has_slot = builder.create<arith::AndIOp>(has_slot, compared(CmpIPredicate::sge, 1));
    }
    store(has_slot, rank, window);
    rows = if_holds(builder, compared(CmpIPredicate::sge, plan_.slots), rows, [&](Builder& inside) {
      return Values{
          inside.create<mlir::tensor::InsertOp>(large(inside, 1), rows, total_of(inside, plan_, Total::Overflows))};
    })[0];
  }
};

}  // namespace

Result<void> emit_count(const RowsEmission& emission, size_t launch) { return CountEmitter(emission, launch).run(); }

}  // namespace strata::emitters
