// Elementwise operators of HLO on single elements.
#pragma once

#include <mlir/IR/ImplicitLocOpBuilder.h>

#include "hlo/hlo.h"
#include "support/error.h"

namespace strata::emitters {

/// Whether emit_scalar computes it: elements of the result depend on the operands' elements at the same index only.
/// A bitcast-convert that changes the width is refused by emit_scalar, though.
bool is_elementwise(hlo::Opcode opcode);

/// An element of an elementwise instruction's result, given its operands' (types.h says how they are held). What it
/// computes is what src/hlo/evaluate.h does, bit for bit but for functions such as exp, whose errors
/// docs/emitters-math.md bounds, and for maximum and minimum, which take -0 to be below 0. Floats narrower than 32 bits
/// are extended to f32 and rounded after each operator.
/// Error (Unsupported) for a type that the operator is not defined for, with the instruction's place.
Result<mlir::Value> emit_scalar(mlir::ImplicitLocOpBuilder& builder, const hlo::Computation& computation,
                                const hlo::Instruction& instruction, mlir::ValueRange operands);

/// An element of a bitcast's result: where the element type changes, its bits as one of the other type. Error as above
/// for types of different widths.
Result<mlir::Value> emit_bitcast(mlir::ImplicitLocOpBuilder& builder, const hlo::Computation& computation,
                                 const hlo::Instruction& instruction, mlir::Value operand);

/// A scalar constant of the literal's type: element `index`.
mlir::Value emit_constant(mlir::ImplicitLocOpBuilder& builder, const hlo::Literal& literal, int64_t index);

/// The value converted as by HLO's convert.
mlir::Value emit_convert(mlir::ImplicitLocOpBuilder& builder, mlir::Value value, hlo::ElementType from,
                         hlo::ElementType to);

/// F32 for all floats that are narrower, else the type itself: in what long sums are computed.
hlo::ElementType wide_type(hlo::ElementType type);
/// An element as one of its wide type, and back.
mlir::Value widened(mlir::ImplicitLocOpBuilder& builder, mlir::Value value, hlo::ElementType type);
mlir::Value narrowed(mlir::ImplicitLocOpBuilder& builder, mlir::Value value, hlo::ElementType type);

/// 0, a + b and a · b of wide types; of pred: false, or, and.
mlir::Value emit_zero(mlir::ImplicitLocOpBuilder& builder, hlo::ElementType type);
mlir::Value emit_add(mlir::ImplicitLocOpBuilder& builder, mlir::Value a, mlir::Value b);
mlir::Value emit_multiply(mlir::ImplicitLocOpBuilder& builder, mlir::Value a, mlir::Value b);

/// All elements of a constant, in row-major order, as a tensor of rank 1.
mlir::Value constant_tensor(mlir::ImplicitLocOpBuilder& builder, const hlo::Literal& literal);

}  // namespace strata::emitters
