// HLO element types in MLIR.
#pragma once

#include <mlir/IR/Builders.h>
#include <mlir/IR/BuiltinTypes.h>

#include "hlo/shape.h"

namespace strata::emitters {

/// How an element is held in code and in tensors: pred as i1, integers of b bits as signless ib, f16, bf16, f32 and f64
/// as themselves, all narrower floats as the integer of their bits in i8, complex numbers as complex<f32 or f64>. In
/// memory, integers narrower than a byte and pred take a byte each (hlo::Literal), of which only the low bits count
/// when read.
mlir::Type element_type(mlir::MLIRContext* context, hlo::ElementType type);

/// The type in which floats are computed: f32 for all that are narrower, else the type itself.
mlir::Type compute_type(mlir::MLIRContext* context, hlo::ElementType type);

/// Whether the type is a float of 8 bits or fewer, held as its bits.
bool is_small_float(hlo::ElementType type);

/// Bytes of an element in memory.
int element_bytes(mlir::Type type);

/// A tensor of all elements of an array, in the order in which they lie in memory: of rank 1.
mlir::RankedTensorType flat_tensor(mlir::MLIRContext* context, const hlo::Shape& shape);

}  // namespace strata::emitters
