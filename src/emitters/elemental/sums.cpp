// What sums and constants of tensors need besides operators.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Complex/IR/Complex.h>

#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/types.h"

namespace strata::emitters {

using hlo::ElementType;
using mlir::Value;

ElementType wide_type(ElementType type) {
  return hlo::kind(type) == hlo::TypeKind::Float && hlo::bit_width(type) < 32 ? ElementType::F32 : type;
}

Value widened(mlir::ImplicitLocOpBuilder& builder, Value value, ElementType type) {
  return wide_type(type) == type ? value : emit_convert(builder, value, type, wide_type(type));
}

Value narrowed(mlir::ImplicitLocOpBuilder& builder, Value value, ElementType type) {
  return wide_type(type) == type ? value : emit_convert(builder, value, wide_type(type), type);
}

Value emit_zero(mlir::ImplicitLocOpBuilder& builder, ElementType type) {
  return emit_constant(builder, hlo::Literal(hlo::array_shape(type, {})), 0);
}

Value emit_add(mlir::ImplicitLocOpBuilder& builder, Value a, Value b) {
  const mlir::Type type = a.getType();
  if (type.isInteger(1)) return builder.create<mlir::arith::OrIOp>(a, b);
  if (llvm::isa<mlir::IntegerType>(type)) return builder.create<mlir::arith::AddIOp>(a, b);
  if (llvm::isa<mlir::ComplexType>(type)) return builder.create<mlir::complex::AddOp>(a, b);
  return builder.create<mlir::arith::AddFOp>(a, b);
}

Value emit_multiply(mlir::ImplicitLocOpBuilder& builder, Value a, Value b) {
  const mlir::Type type = a.getType();
  if (llvm::isa<mlir::IntegerType>(type)) {
    return type.isInteger(1) ? builder.create<mlir::arith::AndIOp>(a, b).getResult()
                             : builder.create<mlir::arith::MulIOp>(a, b).getResult();
  }
  if (llvm::isa<mlir::ComplexType>(type)) return builder.create<mlir::complex::MulOp>(a, b);
  return builder.create<mlir::arith::MulFOp>(a, b);
}

Value constant_tensor(mlir::ImplicitLocOpBuilder& builder, const hlo::Literal& literal) {
  const mlir::RankedTensorType type = flat_tensor(builder.getContext(), literal.shape());
  const auto bits = static_cast<unsigned>(hlo::bit_width(literal.type()));
  mlir::DenseElementsAttr elements;
  if (bits < 8 && hlo::kind(literal.type()) != hlo::TypeKind::Float) {
    llvm::SmallVector<llvm::APInt> values;
    for (int64_t i = 0; i < literal.size(); ++i) {
      values.emplace_back(bits, static_cast<uint64_t>(literal.get_integer(i)), /*isSigned=*/true);
    }
    elements = mlir::DenseElementsAttr::get(type, values);
  } else {
    // Literals and attributes hold elements of whole bytes alike.
    const llvm::ArrayRef<char> bytes(reinterpret_cast<const char*>(literal.bytes()), literal.byte_size());
    elements = mlir::DenseElementsAttr::getFromRawBuffer(type, bytes);
  }
  return builder.create<mlir::arith::ConstantOp>(elements);
}

}  // namespace strata::emitters
