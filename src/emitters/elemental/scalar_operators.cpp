#include "emitters/elemental/scalar_operators.h"

#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Complex/IR/Complex.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/BuiltinOps.h>

#include <cstring>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/scalar_parts.h"
#include "emitters/elemental/types.h"
#include "hlo/shape_rules.h"

namespace strata::emitters {
namespace {

using hlo::ElementType;
using hlo::Opcode;
using mlir::ImplicitLocOpBuilder;
using mlir::Value;
using mlir::ValueRange;

/// Bits that an element takes where its bits matter: pred is a byte.
int stored_bits(ElementType type) { return type == ElementType::Pred ? 8 : hlo::bit_width(type); }

/// What the shape rules of the families Unary to Conversion refuse, refused here too.
Result<void> check(const hlo::Instruction& instruction, ElementType type) {
  const Opcode opcode = instruction.opcode;
  bool defined = emitters::is_elementwise(opcode) && hlo::is_defined_for(opcode, type);
  if (opcode == Opcode::Complex) defined = type == ElementType::F32 || type == ElementType::F64;
  if (opcode == Opcode::Compare && hlo::is_complex(type)) {
    using Direction = hlo::CompareAttributes::Direction;
    const Direction direction = instruction.as<hlo::CompareAttributes>().direction;
    defined = direction == Direction::EQ || direction == Direction::NE;
  }
  if (!defined) return unsupported("{} is not defined for elements of {}", name(opcode), name(type));
  if (opcode == Opcode::BitcastConvert && stored_bits(type) != stored_bits(instruction.shape.type)) {
    return unsupported("bitcast-convert from {} to {} is not elementwise", name(type), name(instruction.shape.type));
  }
  return {};
}

mlir::FloatAttr float_attribute(mlir::FloatType type, const std::byte* bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, type.getWidth() / 8);
  return mlir::FloatAttr::get(type, llvm::APFloat(type.getFloatSemantics(), llvm::APInt(type.getWidth(), bits)));
}

}  // namespace

bool is_elementwise(Opcode opcode) { return hlo::is_elementwise(opcode) || opcode == Opcode::BitcastConvert; }

Result<Value> emit_scalar(ImplicitLocOpBuilder& builder, const hlo::Computation& computation,
                          const hlo::Instruction& instruction, ValueRange operands) {
  const Opcode opcode = instruction.opcode;
  const size_t value_operand = family(opcode) == hlo::Family::Ternary ? 1 : 0;
  const ElementType type = computation.operand_shape(instruction, value_operand).type;
  if (const Result<void> checked = check(instruction, type); !checked) {
    return tl::unexpected(checked.error().at(instruction.location));
  }
  switch (opcode) {
    case Opcode::Select:
      return builder.create<mlir::arith::SelectOp>(operands[0], operands[1], operands[2]).getResult();
    case Opcode::Convert:
      return emit_convert(builder, operands[0], type, instruction.shape.type);
    case Opcode::BitcastConvert:
      return emit_bitcast_convert(builder, operands[0], type, instruction.shape.type);
    case Opcode::ReducePrecision:
      return emit_reduce_precision(builder, instruction.as<hlo::ReducePrecisionAttributes>(), type, operands[0]);
    case Opcode::Compare:
      return emit_compare(builder, instruction.as<hlo::CompareAttributes>(), type, operands[0], operands[1]);
    default:
      break;
  }
  if (hlo::is_complex(type)) return emit_complex(builder, opcode, operands);
  if (!hlo::is_float(type)) return emit_integer(builder, opcode, type, operands);
  llvm::SmallVector<Value> numbers;
  for (const Value operand : operands) numbers.push_back(to_computed(builder, operand, type));
  const Value result = emit_float(builder, opcode, numbers);
  return result.getType() == numbers[0].getType() ? to_held(builder, result, type) : result;
}

Result<Value> emit_bitcast(ImplicitLocOpBuilder& builder, const hlo::Computation& computation,
                           const hlo::Instruction& instruction, Value operand) {
  if (computation.operand_shape(instruction, 0).type == instruction.shape.type) return operand;
  hlo::Instruction converted = instruction;
  converted.opcode = Opcode::BitcastConvert;
  return emit_scalar(builder, computation, converted, operand);
}

Value emit_constant(ImplicitLocOpBuilder& builder, const hlo::Literal& literal, int64_t index) {
  const ElementType type = literal.type();
  const mlir::Type held = element_type(builder.getContext(), type);
  const std::byte* bytes = literal.bytes() + index * hlo::byte_width(type);
  if (const auto complex = llvm::dyn_cast<mlir::ComplexType>(held)) {
    auto part = llvm::cast<mlir::FloatType>(complex.getElementType());
    const mlir::Attribute parts[] = {float_attribute(part, bytes), float_attribute(part, bytes + part.getWidth() / 8)};
    return builder.create<mlir::complex::ConstantOp>(held, builder.getArrayAttr(parts));
  }
  if (const auto number = llvm::dyn_cast<mlir::FloatType>(held)) {
    return builder.create<mlir::arith::ConstantOp>(float_attribute(number, bytes));
  }
  if (is_small_float(type)) return integer_constant(builder, held, std::to_integer<int64_t>(*bytes));
  return integer_constant(builder, held, literal.get_integer(index));
}

Value integer_constant(ImplicitLocOpBuilder& builder, mlir::Type type, int64_t value) {
  const llvm::APInt bits(64, static_cast<uint64_t>(value));
  const auto attribute = mlir::IntegerAttr::get(type, bits.sextOrTrunc(type.getIntOrFloatBitWidth()));
  return builder.create<mlir::arith::ConstantOp>(attribute);
}

Value float_constant(ImplicitLocOpBuilder& builder, mlir::Type type, double value) {
  return builder.create<mlir::arith::ConstantOp>(builder.getFloatAttr(type, value));
}

Value call_library(ImplicitLocOpBuilder& builder, const std::string& name, mlir::Type result, ValueRange operands) {
  auto module = builder.getInsertionBlock()->getParentOp()->getParentOfType<mlir::ModuleOp>();
  assert(module && "functions are declared in a module");
  if (!module.lookupSymbol(name)) {
    const mlir::OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(module.getBody());
    const auto function = mlir::FunctionType::get(builder.getContext(), operands.getTypes(), result);
    builder.create<mlir::func::FuncOp>(name, function).setPrivate();
  }
  return builder.create<PureCallOp>(result, name, operands).getResult(0);
}

}  // namespace strata::emitters
