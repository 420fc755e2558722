#include "emitters/elemental/types.h"

namespace strata::emitters {

mlir::Type element_type(mlir::MLIRContext* context, hlo::ElementType type) {
  mlir::Builder builder(context);
  switch (hlo::kind(type)) {
    case hlo::TypeKind::Pred:
      return builder.getI1Type();
    case hlo::TypeKind::Signed:
    case hlo::TypeKind::Unsigned:
      return builder.getIntegerType(static_cast<unsigned>(hlo::bit_width(type)));
    case hlo::TypeKind::Float:
      if (is_small_float(type)) return builder.getIntegerType(8);
      if (type == hlo::ElementType::F16) return builder.getF16Type();
      if (type == hlo::ElementType::BF16) return builder.getBF16Type();
      return type == hlo::ElementType::F64 ? builder.getF64Type() : builder.getF32Type();
    case hlo::TypeKind::Complex:
      return mlir::ComplexType::get(type == hlo::ElementType::C64 ? builder.getF32Type() : builder.getF64Type());
    default:
      break;
  }
  assert(false && "no type of elements");
  return {};
}

mlir::Type compute_type(mlir::MLIRContext* context, hlo::ElementType type) {
  if (hlo::kind(type) == hlo::TypeKind::Float && hlo::bit_width(type) < 32) return mlir::Float32Type::get(context);
  return element_type(context, type);
}

bool is_small_float(hlo::ElementType type) {
  return hlo::kind(type) == hlo::TypeKind::Float && hlo::bit_width(type) <= 8;
}

int element_bytes(mlir::Type type) {
  if (const auto complex = llvm::dyn_cast<mlir::ComplexType>(type)) return 2 * element_bytes(complex.getElementType());
  return static_cast<int>(type.getIntOrFloatBitWidth() + 7) / 8;
}

mlir::RankedTensorType flat_tensor(mlir::MLIRContext* context, const hlo::Shape& shape) {
  return mlir::RankedTensorType::get({shape.element_count()}, element_type(context, shape.type));
}

}  // namespace strata::emitters
