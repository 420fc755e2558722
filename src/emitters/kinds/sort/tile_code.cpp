#include "emitters/kinds/sort/tile_code.h"

#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>

namespace strata::emitters {

namespace arith = mlir::arith;
using Builder = mlir::ImplicitLocOpBuilder;
using arith::CmpIPredicate;
using mlir::Value;
using mlir::ValueRange;

Value Integers::constant(Builder& builder, int64_t value) { return builder.create<arith::ConstantIntOp>(value, 32); }

Value Integers::of_index(Builder& builder, Value index) {
  return builder.create<arith::IndexCastOp>(builder.getI32Type(), index);
}

Value Integers::to_index(Builder& builder, Value integer) {
  return builder.create<arith::IndexCastOp>(builder.getIndexType(), integer);
}

Value Integers::add(Builder& builder, Value a, Value b) { return builder.create<arith::AddIOp>(a, b); }

Value Integers::add(Builder& builder, Value a, int64_t b) { return b == 0 ? a : add(builder, a, constant(builder, b)); }

Value Integers::subtract(Builder& builder, Value a, Value b) { return builder.create<arith::SubIOp>(a, b); }

Value Integers::multiply(Builder& builder, Value a, int64_t b) {
  return builder.create<arith::MulIOp>(a, constant(builder, b));
}

Value Integers::minimum(Builder& builder, Value a, Value b) { return builder.create<arith::MinSIOp>(a, b); }

Value Integers::maximum(Builder& builder, Value a, Value b) { return builder.create<arith::MaxSIOp>(a, b); }

Value Integers::clamp(Builder& builder, Value value, Value most) {
  return maximum(builder, constant(builder, 0), minimum(builder, value, most));
}

Value Integers::less(Builder& builder, Value a, Value b) { return compare(builder, CmpIPredicate::slt, a, b); }

namespace {

Element chosen(Builder& builder, Value condition, ValueRange yes, ValueRange no) {
  Element result;
  for (const auto& [a, b] : llvm::zip_equal(yes, no)) {
    result.push_back(builder.create<arith::SelectOp>(condition, a, b));
  }
  return result;
}

}  // namespace

Value TileCode::less(Builder& builder, ValueRange a, ValueRange b) const {
  Values operands;
  for (const auto& [of_a, of_b] : llvm::zip_equal(a, b)) {
    operands.push_back(of_a);
    operands.push_back(of_b);
  }
  mlir::func::FuncOp function = less_;
  return builder.create<PureCallOp>(function.getResultTypes(), function.getName(), operands).getResult(0);
}

Values TileCode::allocate(Builder& builder, mlir::TypeRange types, int64_t elements) {
  Values tiles;
  for (const mlir::Type type : types) {
    const auto shared = SharedTileAttr::get(builder.getContext(), /*padding=*/0, /*chunk=*/0);
    tiles.push_back(builder.create<AllocateSharedOp>(mlir::RankedTensorType::get({elements}, type, shared)));
  }
  return tiles;
}

Values TileCode::sync(Builder& builder, ValueRange tiles) {
  return Values(builder.create<SyncThreadsOp>(tiles.getTypes(), tiles).getResults());
}

Element TileCode::load(Builder& builder, ValueRange tiles, Value place) {
  const Value index = Integers::to_index(builder, place);
  Element element;
  for (const Value tile : tiles) element.push_back(builder.create<mlir::tensor::ExtractOp>(tile, index));
  return element;
}

Values TileCode::store(Builder& builder, const Element& element, ValueRange tiles, Value place) {
  const Value index = Integers::to_index(builder, place);
  Values after;
  for (const auto& [value, tile] : llvm::zip_equal(element, tiles)) {
    after.push_back(builder.create<mlir::tensor::InsertOp>(value, tile, index));
  }
  return after;
}

Items TileCode::load_items(Builder& builder, ValueRange tiles, Value first) const {
  Items items;
  for (int64_t i = 0; i < items_; ++i) items.push_back(load(builder, tiles, Integers::add(builder, first, i)));
  return items;
}

Values TileCode::store_items(Builder& builder, const Items& items, ValueRange tiles, Value first) const {
  Values after(tiles);
  for (int64_t i = 0; i < items_; ++i) {
    after = store(builder, items[static_cast<size_t>(i)], after, Integers::add(builder, first, i));
  }
  return after;
}

/// Odd-even transposition: only neighbours change places, so equal elements keep their order, and all indices of
/// elements are known, so that they stay in registers.
Items TileCode::sorted(Builder& builder, Items items, Value count) const {
  std::vector<Value> there;  // of element i + 1
  for (int64_t i = 0; count && i + 1 < items_; ++i) {
    there.push_back(Integers::less(builder, Integers::constant(builder, i + 1), count));
  }
  for (int64_t round = 0; round < items_; ++round) {
    for (auto i = static_cast<size_t>(round % 2); i + 1 < items.size(); i += 2) {
      Value swap = less(builder, items[i + 1], items[i]);
      if (count) swap = builder.create<arith::AndIOp>(swap, there[i]);
      const Element lower = chosen(builder, swap, items[i + 1], items[i]);
      items[i + 1] = chosen(builder, swap, items[i], items[i + 1]);
      items[i] = lower;
    }
  }
  return items;
}

Value TileCode::split(Builder& builder, const RunPair& runs, Value diagonal, Value steps, Read read_a,
                      Read read_b) const {
  const Value zero = Integers::constant(builder, 0);
  const Value low = Integers::maximum(builder, zero, Integers::subtract(builder, diagonal, runs.b_count));
  const Value high = Integers::minimum(builder, diagonal, runs.a_count);
  auto loop = builder.create<mlir::scf::ForOp>(index_constant(builder, 0), steps, index_constant(builder, 1),
                                               Values{low, high});
  Builder inside(builder.getLoc(), builder.getContext());
  if (!loop.getBody()->empty()) loop.getBody()->getTerminator()->erase();
  inside.setInsertionPointToStart(loop.getBody());
  const Value from = loop.getRegionIterArgs()[0], to = loop.getRegionIterArgs()[1];
  const Value sum = Integers::add(inside, from, to);
  const Value middle = inside.create<arith::ShRUIOp>(sum, Integers::constant(inside, 1));
  const Element of_a = read_a(inside, middle);
  const Element of_b = read_b(inside, Integers::add(inside, Integers::subtract(inside, diagonal, middle), -1));
  // Where nothing is left to search, the bounds stay.
  const Value open = Integers::less(inside, from, to);
  const Value b_first = less(inside, of_b, of_a);
  const Value not_b = inside.create<arith::XOrIOp>(b_first, inside.create<arith::ConstantIntOp>(1, 1));
  const Value rises = inside.create<arith::AndIOp>(open, not_b);
  const Value falls = inside.create<arith::AndIOp>(open, b_first);
  const Value next_from = inside.create<arith::SelectOp>(rises, Integers::add(inside, middle, 1), from);
  const Value next_to = inside.create<arith::SelectOp>(falls, middle, to);
  inside.create<mlir::scf::YieldOp>(ValueRange{next_from, next_to});
  return loop.getResult(0);
}

Items TileCode::merged(Builder& builder, ValueRange tiles, const RunPair& runs, Value diagonal, Value steps) const {
  const Value zero = Integers::constant(builder, 0);
  const auto read_a = [&](Builder& inside, Value number) {
    return load(inside, tiles, Integers::add(inside, runs.a, number));
  };
  const auto read_b = [&](Builder& inside, Value number) {
    return load(inside, tiles, Integers::maximum(inside, zero, Integers::add(inside, runs.b, number)));
  };
  const Value taken = split(builder, runs, diagonal, steps, read_a, read_b);
  Value a = Integers::add(builder, runs.a, taken);
  Value b = Integers::add(builder, runs.b, Integers::subtract(builder, diagonal, taken));
  const Value a_end = Integers::add(builder, runs.a, runs.a_count);
  const Value b_end = Integers::add(builder, runs.b, runs.b_count);
  Element of_a = load(builder, tiles, a), of_b = load(builder, tiles, b);
  Items items;
  for (int64_t i = 0; i < items_; ++i) {
    const Value has_a = Integers::less(builder, a, a_end), has_b = Integers::less(builder, b, b_end);
    const Value no_a = builder.create<arith::XOrIOp>(has_a, builder.create<arith::ConstantIntOp>(1, 1));
    const Value wanted = builder.create<arith::OrIOp>(no_a, less(builder, of_b, of_a));
    const Value takes_b = builder.create<arith::AndIOp>(has_b, wanted);
    items.push_back(chosen(builder, takes_b, of_b, of_a));
    if (i + 1 == items_) break;
    // At the end of both runs the places stay where they are.
    const Value takes_a = builder.create<arith::AndIOp>(
        has_a, builder.create<arith::XOrIOp>(takes_b, builder.create<arith::ConstantIntOp>(1, 1)));
    a = Integers::add(builder, a, builder.create<arith::ExtUIOp>(builder.getI32Type(), takes_a));
    b = Integers::add(builder, b, builder.create<arith::ExtUIOp>(builder.getI32Type(), takes_b));
    const Element next = load(builder, tiles, builder.create<arith::SelectOp>(takes_b, b, a));
    of_a = chosen(builder, takes_b, of_a, next);
    of_b = chosen(builder, takes_b, next, of_b);
  }
  return items;
}

Values TileCode::flat(const Items& items) {
  Values all;
  for (const Element& element : items) llvm::append_range(all, element);
  return all;
}

Items TileCode::items_of(ValueRange flat) const {
  const size_t arrays = flat.size() / static_cast<size_t>(items_);
  Items items;
  for (size_t i = 0; i < static_cast<size_t>(items_); ++i) items.emplace_back(flat.slice(i * arrays, arrays));
  return items;
}

}  // namespace strata::emitters
