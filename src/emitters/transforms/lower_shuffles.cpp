// shuffle_reduce → for each distance a shuffle of every 32-bit word of the values, and a call of the combiner;
// shuffle_index → a shuffle of every word. warp_product → a call of the instruction's function on a GPU, elsewhere
// shuffles of what other lanes hold.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>
#include <mlir/IR/ImplicitLocOpBuilder.h>

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
constexpr const char* kProductOfBf16 = "strata_warp_product_bf16";
constexpr const char* kProductOfF16 = "strata_warp_product_f16";
constexpr const char* kProductOfS8 = "strata_warp_product_s8";

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

/// The words that a vector of narrower elements takes.
llvm::SmallVector<Value> words(mlir::ImplicitLocOpBuilder& builder, Value narrow) {
  const auto type = llvm::cast<mlir::VectorType>(narrow.getType());
  const int64_t count = type.getNumElements() * type.getElementTypeBitWidth() / kWordBits;
  const Value all =
      builder.create<mlir::vector::BitCastOp>(mlir::VectorType::get({count}, builder.getI32Type()), narrow);
  llvm::SmallVector<Value> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(builder.create<mlir::vector::ExtractOp>(all, i));
  return result;
}

llvm::SmallVector<Value> elements(mlir::ImplicitLocOpBuilder& builder, Value vector) {
  llvm::SmallVector<Value> result;
  for (int64_t i = 0; i < llvm::cast<mlir::VectorType>(vector.getType()).getNumElements(); ++i)
    result.push_back(builder.create<mlir::vector::ExtractOp>(vector, i));
  return result;
}

llvm::SmallVector<Value> called_product(mlir::ImplicitLocOpBuilder& builder, mlir::ModuleOp module, WarpProductOp op) {
  const Type type = llvm::cast<mlir::VectorType>(op.getLeft().getType()).getElementType();
  const char* name = type.isBF16() ? kProductOfBf16 : type.isF16() ? kProductOfF16 : kProductOfS8;
  llvm::SmallVector<Value> operands = words(builder, op.getLeft());
  llvm::append_range(operands, words(builder, op.getRight()));
  llvm::append_range(operands, elements(builder, op.getSums()));
  auto function = module.lookupSymbol<FuncOp>(name);
  if (!function) {
    OpBuilder declarations = OpBuilder::atBlockBegin(module.getBody());
    const llvm::SmallVector<Type> results(4, op.getSums().getType().getElementType());
    function = declarations.create<FuncOp>(
        module.getLoc(), name, builder.getFunctionType(mlir::TypeRange(mlir::ValueRange(operands)), results));
    function.setPrivate();
  }
  return llvm::SmallVector<Value>(builder.create<mlir::func::CallOp>(function, operands).getResults());
}

/// The elements of a word, as the sums' type.
llvm::SmallVector<Value> wide_elements(mlir::ImplicitLocOpBuilder& builder, Value word, Type type) {
  const unsigned width = type.getIntOrFloatBitWidth();
  llvm::SmallVector<Value> result;
  for (unsigned first = 0; first < kWordBits; first += width) {
    const Value shift = builder.create<arith::ConstantIntOp>(first, kWordBits);
    const Value down = builder.create<arith::ShRUIOp>(word, shift);
    const Value bits = builder.create<arith::TruncIOp>(builder.getIntegerType(width), down);
    if (type.isInteger()) {
      result.push_back(builder.create<arith::ExtSIOp>(builder.getI32Type(), bits));
    } else {
      const Value element = builder.create<arith::BitcastOp>(type, bits);
      result.push_back(builder.create<arith::ExtFOp>(Type(builder.getF32Type()), element));
    }
  }
  return result;
}

/// The sum and a product.
Value multiply_add(mlir::ImplicitLocOpBuilder& builder, Value sum, Value a, Value b) {
  if (sum.getType().isInteger()) return builder.create<arith::AddIOp>(sum, builder.create<arith::MulIOp>(a, b));
  return builder.create<arith::AddFOp>(sum, builder.create<arith::MulFOp>(a, b));
}

/// As the instruction does: with the words of the lanes that hold the lane's rows of the first matrix, and its columns
/// of the second.
llvm::SmallVector<Value> shuffled_product(mlir::ImplicitLocOpBuilder& builder, mlir::ModuleOp module,
                                          WarpProductOp op) {
  const Type word = builder.getI32Type();
  const Type type = llvm::cast<mlir::VectorType>(op.getLeft().getType()).getElementType();
  const auto constant = [&](int64_t value) -> Value { return builder.create<arith::ConstantIntOp>(value, kWordBits); };
  const FuncOp function = shuffle_function(module, kShuffleIndex);
  const llvm::SmallVector<Value> left = words(builder, op.getLeft()), right = words(builder, op.getRight());
  const Value lane = builder.create<arith::IndexCastOp>(word, op.getLane());
  const Value t = builder.create<arith::AndIOp>(lane, constant(3));
  const Value first_of_rows = builder.create<arith::SubIOp>(lane, t);
  const Value first_of_columns = builder.create<arith::MulIOp>(t, constant(8));  // 4 lanes for each of 2t and 2t + 1
  llvm::SmallVector<Value> sums = elements(builder, op.getSums());
  for (int64_t other = 0; other < 4; ++other) {
    const auto from = [&](Value value, Value first, int64_t offset) -> Value {
      const Value source = builder.create<arith::AddIOp>(first, constant(other + offset));
      return shuffle(builder, builder.getLoc(), function, value, source);
    };
    llvm::SmallVector<Value> rows;
    for (const Value value : left) rows.push_back(from(value, first_of_rows, 0));
    for (size_t column = 0; column < 2; ++column) {
      for (size_t k = 0; k < 2; ++k) {
        const llvm::SmallVector<Value> b =
            wide_elements(builder, from(right[k], first_of_columns, static_cast<int64_t>(4 * column)), type);
        for (size_t row = 0; row < 2; ++row) {
          const llvm::SmallVector<Value> a = wide_elements(builder, rows[2 * k + row], type);
          Value& sum = sums[2 * row + column];
          for (size_t i = 0; i < a.size(); ++i) sum = multiply_add(builder, sum, a[i], b[i]);
        }
      }
    }
  }
  return sums;
}

void lower_warp_products(mlir::ModuleOp module, Processor processor) {
  llvm::SmallVector<WarpProductOp> operations;
  module.walk([&](WarpProductOp op) { operations.push_back(op); });
  for (WarpProductOp op : operations) {
    mlir::ImplicitLocOpBuilder builder(op.getLoc(), op);
    const llvm::SmallVector<Value> sums =
        processor == Processor::Gpu ? called_product(builder, module, op) : shuffled_product(builder, module, op);
    Value result = op.getSums();
    for (size_t i = 0; i < sums.size(); ++i)
      result = builder.create<mlir::vector::InsertOp>(sums[i], result, static_cast<int64_t>(i));
    op.getResult().replaceAllUsesWith(result);
    op.erase();
  }
}

}  // namespace

mlir::LogicalResult lower_shuffles(mlir::ModuleOp module, const LoweringOptions& options) {
  lower_warp_products(module, options.processor);
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
