// Parts of rows that have many updates: a thread combines some elements of all windows of a chunk.
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include "emitters/dialect/dialect.h"
#include "emitters/kinds/scatter/elements.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
using arith::CmpIPredicate;
using Builder = mlir::ImplicitLocOpBuilder;
using indexing::Expr;
using indexing::Interval;
using mlir::Value;
using mlir::ValueRange;

class ChunksEmitter {
 public:
  ChunksEmitter(const RowsEmission& emission, size_t launch)
      : emission_(emission),
        plan_(emission.plan),
        sorted_(plan_.index == RowIndex::Sorted),
        kernel_(emission.kernel(launch, reads(emission))),
        builder_(kernel_.builder()),
        code_(emission, kernel_, plan_.chunk_vector),
        launch_(emission.decision.launches[launch]) {}

  Result<void> run() {
    const int64_t per_chunk = plan_.shape.window / plan_.chunk_vector;
    const Expr item = Expr::dim(0) * launch_.threads + Expr::dim(1);
    const std::vector<Interval> place{indexing::below(launch_.blocks), indexing::below(launch_.threads)};
    const Expr group = indexing::floor_div(item, per_chunk);
    chunk_ = at(builder_, indexing::floor_div(group, plan_.chunk_groups), place, kernel_.place());
    group_ = at(builder_, indexing::mod(group, plan_.chunk_groups), place, kernel_.place());
    vector_ = at(builder_, indexing::mod(item, per_chunk), place, kernel_.place());
    Value parts = kernel_.temporaries().back();
    if (sorted_) {
      const Value there = compare(builder_, CmpIPredicate::slt, chunk_, index_constant(builder_, plan_.list_chunks()));
      parts = if_holds(builder_, there, parts, [&](Builder& inside) { return Values{sorted_part(inside, parts)}; })[0];
    } else {
      parts = slots_part(builder_, parts);
      parts = list_part(builder_, parts);
    }
    if (code_.error()) return tl::unexpected(std::move(*code_.error()));
    Values temporaries(kernel_.temporaries());
    temporaries.back() = parts;
    kernel_.finish(kernel_.outputs(), temporaries);
    return {};
  }

 private:
  /// All temporaries but the last one.
  static std::vector<size_t> reads(const RowsEmission& emission) {
    std::vector<size_t> numbers(emission.decision.temporaries.size() - 1);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
    return numbers;
  }

  Value temporary(RowTemporary which) { return kernel_.temporaries()[static_cast<size_t>(which)]; }

  Value below_and(Builder& builder, Value condition, Value a, Value b) {
    return builder.create<arith::AndIOp>(condition, compare(builder, CmpIPredicate::slt, a, b));
  }

  /// The parts with that of slots of one row, if the chunk is one of slots.
  Value slots_part(Builder& builder, Value parts) {
    if (plan_.slot_chunks() == 0) return parts;
    const Value of_slots = compare(builder, CmpIPredicate::slt, chunk_, index_constant(builder, plan_.slot_chunks()));
    return if_holds(builder, of_slots, parts, [&](Builder& inside) {
      const std::vector<Interval> chunks{indexing::below(plan_.slot_chunks())};
      const int64_t of_row = plan_.slot_chunks_of_row();
      const Value row = at(inside, indexing::floor_div(Expr::dim(0), of_row), chunks, chunk_);
      const Value begin = at(inside, indexing::mod(Expr::dim(0), of_row) * plan_.chunk, chunks, chunk_);
      const Value count = load_count(inside, plan_, temporary(RowTemporary::Rows), row);
      const Value there = compare(inside, CmpIPredicate::slt, begin, count);
      return if_holds(inside, there, parts, [&](Builder& innermost) {
        const Value next = innermost.create<arith::AddIOp>(begin, index_constant(innermost, plan_.chunk));
        const Value end = innermost.create<arith::MinSIOp>(count, next);
        return Values{combined(innermost, begin, end, parts, [&, row](Builder& where, Value number) {
          return load_index(where, temporary(RowTemporary::Slots), slot_of(where, plan_, row, number));
        })};
      });
    })[0];
  }

  /// The same for a list.
  Value list_part(Builder& builder, Value parts) {
    if (plan_.list_chunks() == 0) return parts;
    const Value number = builder.create<arith::SubIOp>(chunk_, index_constant(builder, plan_.slot_chunks()));
    const Value total = load_total(builder, plan_, temporary(RowTemporary::Rows), Total::Chunks);
    const Value from_zero = compare(builder, CmpIPredicate::sge, number, index_constant(builder, 0));
    return if_holds(builder, below_and(builder, from_zero, number, total), parts, [&](Builder& inside) {
      const std::vector<Interval> numbers{indexing::below(plan_.list_chunks())};
      const Expr first = Expr::dim(0) * plan_.chunk + plan_.first_chunk();
      const Value begin = at(inside, first, numbers, number);
      const Value next = at(inside, first + plan_.chunk, numbers, number);
      const Value window = load_index(inside, temporary(RowTemporary::Order), begin);
      const Result<Value> row = row_of(inside, emission_, kernel_.inputs(), window);
      if (!row) return Values{fail(row.error(), parts)};
      const Value start = load_index(inside, temporary(RowTemporary::Starts), *row);
      const Value count = load_count(inside, plan_, temporary(RowTemporary::Rows), *row);
      const Value entries = inside.create<arith::SubIOp>(count, index_constant(inside, plan_.slots));
      const Value end = inside.create<arith::MinSIOp>(inside.create<arith::AddIOp>(start, entries), next);
      return Values{combined(inside, begin, end, parts, [&](Builder& where, Value position) {
        return load_index(where, temporary(RowTemporary::Order), position);
      })};
    })[0];
  }

  /// Of sorted windows: a chunk that is part of a longer list begins and ends with the same row.
  Value sorted_part(Builder& builder, Value parts) {
    const std::vector<Interval> chunks{indexing::below(plan_.list_chunks())};
    const Value begin = at(builder, Expr::dim(0) * plan_.chunk, chunks, chunk_);
    const Value last = at(builder, Expr::dim(0) * plan_.chunk + (plan_.chunk - 1), chunks, chunk_);
    const Result<Value> row = row_of(builder, emission_, kernel_.inputs(), begin);
    if (!row) return fail(row.error(), parts);
    const Result<Value> last_row = row_of(builder, emission_, kernel_.inputs(), last);
    if (!last_row) return fail(last_row.error(), parts);
    const Value fits = compare(builder, CmpIPredicate::sge, *row, index_constant(builder, 0));
    const Value same = compare(builder, CmpIPredicate::eq, *row, *last_row);
    return if_holds(builder, builder.create<arith::AndIOp>(fits, same), parts, [&](Builder& inside) {
      const Value end = inside.create<arith::AddIOp>(begin, index_constant(inside, plan_.chunk));
      return Values{combined(inside, begin, end, parts, [](Builder&, Value position) { return position; })};
    })[0];
  }

  Value fail(const Error& error, Value parts) {
    code_.error() = error;
    return parts;
  }

  /// The element of the window that element `v` of the vector is.
  Value element(Builder& builder, Value v) {
    return at(builder, Expr::dim(0) * plan_.chunk_vector + Expr::dim(1),
              {indexing::below(plan_.shape.window / plan_.chunk_vector), indexing::below(plan_.chunk_vector)},
              {vector_, v});
  }

  /// The tensor with the elements at the places that `place` gives for elements of the window.
  Value written(Builder& builder, const Elements& elements, Value tensor,
                llvm::function_ref<Values(Builder&, Value element)> place) {
    indexing::IndexingMap map;
    map.ranges = {indexing::below(plan_.chunk_vector)};
    auto loop =
        create_loop(builder, map, {}, tensor, 0, [&](Builder& inside, ValueRange v, ValueRange, ValueRange before) {
          const Value value = code_.element(inside, elements, v[0])[0];
          return Values{inside.create<mlir::tensor::InsertOp>(value, before[0], place(inside, element(inside, v[0])))};
        });
    return loop.getResult(0);
  }

  Value combined(Builder& builder, Value begin, Value end, Value parts,
                 std::function<Value(Builder&, Value number)> find) {
    const auto read = [&](Builder& inside, Value from) {
      return code_.read(inside, plan_.shape.updates, [&, from](Builder& innermost, Value v) {
        return apply_map(innermost, plan_.shape.update_of_element, {{element(innermost, v), from}, {}, {}});
      });
    };
    const auto part = [&](Builder& inside, const Elements& state) {
      return written(inside, state, parts, [&](Builder& innermost, Value number) {
        return Values{at(innermost, Expr::dim(0) * plan_.shape.window + Expr::dim(1),
                         {indexing::below(plan_.chunks()), indexing::below(plan_.shape.window)}, {chunk_, number})};
      });
    };
    ElementCode::Entries entries{begin,           end,  /*wide=*/false,    plan_.chunk_batch,
                                 std::move(find), read, plan_.chunk_groups};
    if (plan_.chunk_groups == 1) return part(builder, code_.fold(builder, entries));
    entries.begin = builder.create<arith::AddIOp>(begin, group_);
    return together(builder, entries, builder.create<arith::SubIOp>(end, begin), parts, part);
  }

  /// The groups' elements meet in shared memory, where the first group combines them. There are `count` entries.
  Value together(Builder& builder, const ElementCode::Entries& entries, Value count, Value parts,
                 llvm::function_ref<Value(Builder&, const Elements&)> part) {
    const llvm::SmallVector<mlir::Type> types = code_.wide_types(builder);
    const auto type =
        mlir::RankedTensorType::get({plan_.chunk_groups, plan_.shape.window}, types[0],
                                    SharedTileAttr::get(builder.getContext(), /*padding=*/0, /*chunk=*/0));
    const Value has_entries = compare(builder, CmpIPredicate::slt, group_, count);
    const Elements state = if_holds(builder, has_entries, code_.nothing(builder, types),
                                    [&](Builder& inside) { return code_.fold(inside, entries); });
    Value tile = written(builder, state, builder.create<AllocateSharedOp>(type), [&](Builder&, Value number) {
      return Values{group_, number};
    });
    tile = builder.create<SyncThreadsOp>(mlir::TypeRange(type), tile).getResult(0);
    const auto read = [&](Builder& inside, Value group) {
      return code_.for_each(inside, types, [&](Builder& innermost, Value v) {
        return Values{innermost.create<mlir::tensor::ExtractOp>(tile, Values{group, element(innermost, v)})};
      });
    };
    const Value is_first = compare(builder, CmpIPredicate::eq, group_, index_constant(builder, 0));
    return if_holds(builder, is_first, parts, [&](Builder& inside) {
      const Value groups = inside.create<arith::MinSIOp>(count, index_constant(inside, plan_.chunk_groups));
      const ElementCode::Entries others{
          index_constant(inside, 1), groups, /*wide=*/true, 4, [](Builder&, Value group) { return group; }, read};
      return Values{part(inside, code_.fold(inside, others, state))};
    })[0];
  }

  const RowsEmission& emission_;
  const ScatterRowsPlan& plan_;
  bool sorted_;
  Kernel kernel_;
  Builder& builder_;
  ElementCode code_;
  const Launch& launch_;
  Value chunk_, group_, vector_;
};

}  // namespace

Result<void> emit_chunks(const RowsEmission& emission, size_t launch) { return ChunksEmitter(emission, launch).run(); }

}  // namespace strata::emitters
