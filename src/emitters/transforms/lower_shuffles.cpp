// shuffle_reduce → for each distance a shuffle of every 32-bit word of the values, and a call of the combiner;
// shuffle_index → a shuffle of every word.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>

#include "emitters/dialect/dialect.h"
#include "emitters/transforms/memory.h"
#include "emitters/transforms/passes.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
using mlir::Location;
using mlir::OpBuilder;
using mlir::Type;
using mlir::Value;
using mlir::func::FuncOp;

constexpr unsigned kWordBits = 32;
constexpr const char* kShuffleDown = "strata_shuffle_down";
constexpr const char* kShuffleIndex = "strata_shuffle_index";

FuncOp shuffle_function(mlir::ModuleOp module, const char* name) {
  if (auto known = module.lookupSymbol<FuncOp>(name)) return known;
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  const Type word = builder.getI32Type();
  auto function = builder.create<FuncOp>(module.getLoc(), name, builder.getFunctionType({word, word}, word));
  function.setPrivate();
  return function;
}

/// The value that another lane has: the function's second operand, `lane`, says which.
Value shuffle(OpBuilder& builder, Location location, FuncOp function, Value value, Value lane) {
  const Type word = builder.getI32Type();
  const Value bits = to_bits(builder, location, value);
  const Type whole = bits.getType();
  const unsigned width = whole.getIntOrFloatBitWidth();
  const auto one_word = [&](Value from) -> Value {
    return builder.create<mlir::func::CallOp>(location, function, mlir::ValueRange{from, lane}).getResult(0);
  };
  Value moved;
  if (width < kWordBits) {
    moved = one_word(builder.create<arith::ExtUIOp>(location, word, bits));
    moved = builder.create<arith::TruncIOp>(location, whole, moved);
  } else if (width == kWordBits) {
    moved = one_word(bits);
  } else {
    for (unsigned first = 0; first < width; first += kWordBits) {
      const Value shift = builder.create<arith::ConstantIntOp>(location, first, whole);
      const Value down = builder.create<arith::ShRUIOp>(location, bits, shift);
      const Value part = one_word(builder.create<arith::TruncIOp>(location, word, down));
      const Value up =
          builder.create<arith::ShLIOp>(location, builder.create<arith::ExtUIOp>(location, whole, part), shift);
      moved = moved ? builder.create<arith::OrIOp>(location, moved, up).getResult() : up;
    }
  }
  return from_bits(builder, location, moved, value.getType());
}

void lower_shuffle_indices(mlir::ModuleOp module) {
  llvm::SmallVector<ShuffleIndexOp> operations;
  module.walk([&](ShuffleIndexOp op) { operations.push_back(op); });
  for (ShuffleIndexOp op : operations) {
    OpBuilder builder(op);
    const Value lane = builder.create<arith::IndexCastOp>(op.getLoc(), builder.getI32Type(), op.getLane());
    llvm::SmallVector<Value> values;
    for (const Value value : op.getValues()) {
      values.push_back(shuffle(builder, op.getLoc(), shuffle_function(module, kShuffleIndex), value, lane));
    }
    op.replaceAllUsesWith(values);
    op.erase();
  }
}

}  // namespace

mlir::LogicalResult lower_shuffles(mlir::ModuleOp module, const LoweringOptions&) {
  lower_shuffle_indices(module);
  llvm::SmallVector<ShuffleReduceOp> operations;
  module.walk([&](ShuffleReduceOp op) { operations.push_back(op); });
  for (ShuffleReduceOp op : operations) {
    OpBuilder builder(op);
    const Location location = op.getLoc();
    llvm::SmallVector<Value> values(op.getValues());
    for (auto distance = static_cast<int64_t>(op.getDistance()); distance > 0; distance /= 2) {
      const Value lanes = builder.create<arith::ConstantIntOp>(location, distance, kWordBits);
      llvm::SmallVector<Value> operands = values;
      for (const Value value : values) {
        operands.push_back(shuffle(builder, location, shuffle_function(module, kShuffleDown), value, lanes));
      }
      auto call = builder.create<PureCallOp>(location, op.getResultTypes(), op.getCombiner(), operands);
      values.assign(call.getResults().begin(), call.getResults().end());
    }
    op.replaceAllUsesWith(values);
    op.erase();
  }
  return mlir::success();
}

}  // namespace strata::emitters
