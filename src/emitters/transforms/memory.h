// Elements of tensors in memory: how values are held there and where they lie.
#pragma once

#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/IR/Builders.h>
#include <mlir/IR/BuiltinTypes.h>

namespace strata::emitters {

/// The type of an element in memory: bytes for integers narrower than that, vectors of two for complex numbers, else
/// the type itself; for vectors of elements the same of each.
mlir::Type stored_type(mlir::Type type);

/// How many bytes an element takes.
int64_t stored_bytes(mlir::Type element);

/// A value of the type from what is stored, and what is stored for a value.
mlir::Value from_stored(mlir::OpBuilder& builder, mlir::Location location, mlir::Value stored, mlir::Type type);
mlir::Value to_stored(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value);

/// An integer of as many bits as the element takes in memory, holding its bits, and back.
mlir::Value to_bits(mlir::OpBuilder& builder, mlir::Location location, mlir::Value value);
mlir::Value from_bits(mlir::OpBuilder& builder, mlir::Location location, mlir::Value bits, mlir::Type type);

/// The place of an element of a tile in shared memory, in elements, as an i32: indexing::SharedTile::address.
mlir::Value shared_address(mlir::OpBuilder& builder, mlir::Location location, mlir::RankedTensorType type,
                           mlir::ValueRange indices);

/// Bytes of a tile in shared memory.
int64_t shared_bytes(mlir::RankedTensorType type);

}  // namespace strata::emitters
