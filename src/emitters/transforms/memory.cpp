#include "emitters/transforms/memory.h"

#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Complex/IR/Complex.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>

#include "emitters/dialect/dialect.h"
#include "emitters/transforms/index_values.h"
#include "indexing/memory_access.h"

namespace strata::emitters {

namespace arith = mlir::arith;
using mlir::Type;
using mlir::Value;

namespace {

indexing::SharedTile shared_tile(mlir::RankedTensorType type) {
  indexing::SharedTile tile;
  tile.shape.assign(type.getShape().begin(), type.getShape().end());
  tile.element_bytes = static_cast<int>(stored_bytes(type.getElementType()));
  if (const auto layout = llvm::dyn_cast_or_null<SharedTileAttr>(type.getEncoding())) {
    tile.padding = layout.getPadding();
    tile.swizzle_chunk = layout.getChunk();
  }
  return tile;
}

/// The type with another element, as a vector if it is one.
Type with_element(Type type, Type element) {
  const auto vector = llvm::dyn_cast<mlir::VectorType>(type);
  return vector ? Type(mlir::VectorType::get(vector.getShape(), element)) : element;
}

bool is_narrow(Type type) {
  const Type element = mlir::getElementTypeOrSelf(type);
  return element.isInteger() && element.getIntOrFloatBitWidth() < 8;
}

}  // namespace

Type stored_type(Type type) {
  if (is_narrow(type)) return with_element(type, mlir::IntegerType::get(type.getContext(), 8));
  if (const auto complex = llvm::dyn_cast<mlir::ComplexType>(type)) {
    return mlir::VectorType::get({2}, complex.getElementType());
  }
  return type;
}

int64_t stored_bytes(Type element) {
  if (const auto complex = llvm::dyn_cast<mlir::ComplexType>(element))
    return 2 * stored_bytes(complex.getElementType());
  return (element.getIntOrFloatBitWidth() + 7) / 8;
}

Value from_stored(mlir::OpBuilder& builder, mlir::Location location, Value stored, Type type) {
  if (const auto complex = llvm::dyn_cast<mlir::ComplexType>(type)) {
    const Value real = builder.create<mlir::vector::ExtractOp>(location, stored, int64_t{0});
    const Value imaginary = builder.create<mlir::vector::ExtractOp>(location, stored, int64_t{1});
    return builder.create<mlir::complex::CreateOp>(location, complex, real, imaginary);
  }
  if (!is_narrow(type)) return stored;
  if (!mlir::getElementTypeOrSelf(type).isInteger(1)) return builder.create<arith::TruncIOp>(location, type, stored);
  const Value zero = builder.create<arith::ConstantOp>(location, builder.getZeroAttr(stored.getType()));
  return builder.create<arith::CmpIOp>(location, arith::CmpIPredicate::ne, stored, zero);
}

Value to_stored(mlir::OpBuilder& builder, mlir::Location location, Value value) {
  const Type type = value.getType();
  if (const auto complex = llvm::dyn_cast<mlir::ComplexType>(type)) {
    const Type part = complex.getElementType();
    const Value real = builder.create<mlir::complex::ReOp>(location, part, value);
    const Value imaginary = builder.create<mlir::complex::ImOp>(location, part, value);
    Value pair = builder.create<mlir::vector::SplatOp>(location, mlir::VectorType::get({2}, part), real);
    return builder.create<mlir::vector::InsertOp>(location, imaginary, pair, int64_t{1});
  }
  if (!is_narrow(type)) return value;
  return builder.create<arith::ExtUIOp>(location, stored_type(type), value);
}

Value to_bits(mlir::OpBuilder& builder, mlir::Location location, Value value) {
  const auto bits = static_cast<unsigned>(8 * stored_bytes(value.getType()));
  const Type integer = builder.getIntegerType(bits);
  if (const auto complex = llvm::dyn_cast<mlir::ComplexType>(value.getType())) {
    const Type part = complex.getElementType();
    const Value real = to_bits(builder, location, builder.create<mlir::complex::ReOp>(location, part, value));
    const Value imaginary = to_bits(builder, location, builder.create<mlir::complex::ImOp>(location, part, value));
    const Value low = builder.create<arith::ExtUIOp>(location, integer, real);
    const Value high = builder.create<arith::ExtUIOp>(location, integer, imaginary);
    const Value half = builder.create<arith::ConstantIntOp>(location, bits / 2, integer);
    return builder.create<arith::OrIOp>(location, builder.create<arith::ShLIOp>(location, high, half), low);
  }
  const Value stored = to_stored(builder, location, value);
  return stored.getType() == integer ? stored : builder.create<arith::BitcastOp>(location, integer, stored).getResult();
}

Value from_bits(mlir::OpBuilder& builder, mlir::Location location, Value bits, Type type) {
  if (const auto complex = llvm::dyn_cast<mlir::ComplexType>(type)) {
    const unsigned half = bits.getType().getIntOrFloatBitWidth() / 2;
    const Type word = builder.getIntegerType(half);
    const Value distance = builder.create<arith::ConstantIntOp>(location, half, bits.getType());
    const Value low = builder.create<arith::TruncIOp>(location, word, bits);
    const Value shifted = builder.create<arith::ShRUIOp>(location, bits, distance);
    const Value high = builder.create<arith::TruncIOp>(location, word, shifted);
    const Type part = complex.getElementType();
    return builder.create<mlir::complex::CreateOp>(location, complex, from_bits(builder, location, low, part),
                                                   from_bits(builder, location, high, part));
  }
  const Type stored = stored_type(type);
  const Value held =
      stored == bits.getType() ? bits : builder.create<arith::BitcastOp>(location, stored, bits).getResult();
  return from_stored(builder, location, held, type);
}

Value shared_address(mlir::OpBuilder& builder, mlir::Location location, mlir::RankedTensorType type,
                     mlir::ValueRange indices) {
  using indexing::Expr;
  const indexing::SharedTile tile = shared_tile(type);
  const Type i32 = builder.getI32Type();
  const auto as_i32 = [&](const Expr& expr) -> Value {
    const indexing::IndexingMap map = indexing::identity_map(tile.shape);
    const Value index = apply_expr(builder, location, map, expr, indices, {});
    return builder.createOrFold<arith::IndexCastUIOp>(location, i32, index);
  };
  if (tile.shape.empty()) return builder.create<arith::ConstantIntOp>(location, 0, i32);
  Expr row;
  for (size_t i = 0; i + 1 < tile.shape.size(); ++i) row = row * tile.shape[i] + Expr::dim(static_cast<int>(i));
  const Expr column = Expr::dim(static_cast<int>(tile.shape.size()) - 1);
  const int64_t pitch = tile.shape.back() + tile.padding;
  if (tile.swizzle_chunk == 0) return as_i32(row * pitch + column);
  const int64_t chunk = tile.swizzle_chunk;
  const int64_t chunks = tile.shape.back() / chunk;
  // Within the row, chunk (column / chunk) xor (row mod chunks).
  const Value swizzled = builder.create<arith::XOrIOp>(location, as_i32(indexing::floor_div(column, chunk)),
                                                       as_i32(indexing::mod(row, chunks)));
  const Value scaled =
      builder.create<arith::MulIOp>(location, swizzled, builder.create<arith::ConstantIntOp>(location, chunk, i32));
  return builder.create<arith::AddIOp>(location, as_i32(row * pitch + indexing::mod(column, chunk)), scaled);
}

int64_t shared_bytes(mlir::RankedTensorType type) { return shared_tile(type).bytes(); }

}  // namespace strata::emitters
