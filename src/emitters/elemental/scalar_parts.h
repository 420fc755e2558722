// The parts of scalar_operators.h, one file a kind of types. Operators have been found to be defined for the types.
#pragma once

#include <mlir/IR/ImplicitLocOpBuilder.h>

#include "hlo/hlo.h"

namespace strata::emitters {

/// What computes an operator on elements that are all of one type.
using ScalarEmitter = mlir::Value (*)(mlir::ImplicitLocOpBuilder&, mlir::ValueRange);

/// One operation of a dialect, of one or two operands of its result's type.
template <class Operation>
mlir::Value unary(mlir::ImplicitLocOpBuilder& builder, mlir::ValueRange x) {
  return builder.create<Operation>(x[0]);
}
template <class Operation>
mlir::Value binary(mlir::ImplicitLocOpBuilder& builder, mlir::ValueRange x) {
  return builder.create<Operation>(x[0], x[1]);
}

/// Integers and pred, clamp included; not compare.
mlir::Value emit_integer(mlir::ImplicitLocOpBuilder& builder, hlo::Opcode opcode, hlo::ElementType type,
                         mlir::ValueRange operands);
/// The same on f32 or f64, in which floats are computed; the result may be i1 or complex.
mlir::Value emit_float(mlir::ImplicitLocOpBuilder& builder, hlo::Opcode opcode, mlir::ValueRange operands);
/// On c64 and c128; the result may be a float.
mlir::Value emit_complex(mlir::ImplicitLocOpBuilder& builder, hlo::Opcode opcode, mlir::ValueRange operands);
mlir::Value emit_compare(mlir::ImplicitLocOpBuilder& builder, const hlo::CompareAttributes& how, hlo::ElementType type,
                         mlir::Value lhs, mlir::Value rhs);
/// Between types of one width (pred counts as a byte, of which any bit makes it true).
mlir::Value emit_bitcast_convert(mlir::ImplicitLocOpBuilder& builder, mlir::Value value, hlo::ElementType from,
                                 hlo::ElementType to);
mlir::Value emit_reduce_precision(mlir::ImplicitLocOpBuilder& builder, const hlo::ReducePrecisionAttributes& how,
                                  hlo::ElementType type, mlir::Value value);

/// From how a float is held to the type in which it is computed; other types stay.
mlir::Value to_computed(mlir::ImplicitLocOpBuilder& builder, mlir::Value value, hlo::ElementType type);
/// Back, rounded to nearest even.
mlir::Value to_held(mlir::ImplicitLocOpBuilder& builder, mlir::Value value, hlo::ElementType type);

/// A constant of an integer type, modulo its width, or of a float type.
mlir::Value integer_constant(mlir::ImplicitLocOpBuilder& builder, mlir::Type type, int64_t value);
mlir::Value float_constant(mlir::ImplicitLocOpBuilder& builder, mlir::Type type, double value);

/// A call of a function of emitters/math; it is declared where the module has not declared it yet.
mlir::Value call_library(mlir::ImplicitLocOpBuilder& builder, const std::string& name, mlir::Type result,
                         mlir::ValueRange operands);

}  // namespace strata::emitters
