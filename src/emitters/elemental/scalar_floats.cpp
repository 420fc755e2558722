// Operators on f32 and f64, in which all floats are computed, and comparisons of all types.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Complex/IR/Complex.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/Math/IR/Math.h>

#include <limits>

#include "emitters/elemental/scalar_parts.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
namespace complex = mlir::complex;
namespace math = mlir::math;
using arith::CmpFPredicate;
using arith::CmpIPredicate;
using hlo::ElementType;
using hlo::Opcode;
using mlir::ImplicitLocOpBuilder;
using mlir::Value;
using mlir::ValueRange;

Value constant(ImplicitLocOpBuilder& b, Value like, double value) { return float_constant(b, like.getType(), value); }

Value logistic(ImplicitLocOpBuilder& b, ValueRange x) {
  return call_library(b, x[0].getType().isF32() ? "strata_logistic_f32" : "strata_logistic_f64", x[0].getType(), x);
}

/// What is neither above nor below 0 stays: both zeros, and NaN.
Value sign(ImplicitLocOpBuilder& b, ValueRange x) {
  const Value zero = constant(b, x[0], 0);
  const Value above = b.create<arith::CmpFOp>(CmpFPredicate::OGT, x[0], zero);
  const Value below = b.create<arith::CmpFOp>(CmpFPredicate::OLT, x[0], zero);
  const Value not_above = b.create<arith::SelectOp>(below, constant(b, x[0], -1), x[0]);
  return b.create<arith::SelectOp>(above, constant(b, x[0], 1), not_above);
}

Value is_finite(ImplicitLocOpBuilder& b, ValueRange x) {
  const Value infinity = constant(b, x[0], std::numeric_limits<double>::infinity());
  return b.create<arith::CmpFOp>(CmpFPredicate::OLT, b.create<math::AbsFOp>(x[0]), infinity);
}

Value clamp(ImplicitLocOpBuilder& b, ValueRange x) {
  return b.create<arith::MinimumFOp>(b.create<arith::MaximumFOp>(x[0], x[1]), x[2]);
}

Value make_complex(ImplicitLocOpBuilder& b, ValueRange x) {
  return b.create<complex::CreateOp>(mlir::ComplexType::get(x[0].getType()), x[0], x[1]);
}

struct FloatOperator {
  Opcode opcode;
  ScalarEmitter emit;
};

constexpr FloatOperator kFloatOperators[] = {
    {Opcode::Abs, unary<math::AbsFOp>},
    {Opcode::Acos, unary<math::AcosOp>},
    {Opcode::Acosh, unary<math::AcoshOp>},
    {Opcode::Add, binary<arith::AddFOp>},
    {Opcode::Asin, unary<math::AsinOp>},
    {Opcode::Asinh, unary<math::AsinhOp>},
    {Opcode::Atan2, binary<math::Atan2Op>},
    {Opcode::Atanh, unary<math::AtanhOp>},
    {Opcode::Cbrt, unary<math::CbrtOp>},
    {Opcode::Ceil, unary<math::CeilOp>},
    {Opcode::Clamp, clamp},
    {Opcode::Complex, make_complex},
    {Opcode::Cosh, unary<math::CoshOp>},
    {Opcode::Cosine, unary<math::CosOp>},
    {Opcode::Divide, binary<arith::DivFOp>},
    {Opcode::Erf, unary<math::ErfOp>},
    {Opcode::Exp, unary<math::ExpOp>},
    {Opcode::Expm1, unary<math::ExpM1Op>},
    {Opcode::Floor, unary<math::FloorOp>},
    {Opcode::Imag, [](ImplicitLocOpBuilder& b, ValueRange x) { return constant(b, x[0], 0); }},
    {Opcode::IsFinite, is_finite},
    {Opcode::Log, unary<math::LogOp>},
    {Opcode::Log1p, unary<math::Log1pOp>},
    {Opcode::Logistic, logistic},
    {Opcode::Maximum, binary<arith::MaximumFOp>},
    {Opcode::Minimum, binary<arith::MinimumFOp>},
    {Opcode::Multiply, binary<arith::MulFOp>},
    {Opcode::Negate, unary<arith::NegFOp>},
    {Opcode::Power, binary<math::PowFOp>},
    {Opcode::Real, [](ImplicitLocOpBuilder&, ValueRange x) -> Value { return x[0]; }},
    {Opcode::Remainder, binary<arith::RemFOp>},
    {Opcode::RoundNearestAfz, unary<math::RoundOp>},
    {Opcode::RoundNearestEven, unary<math::RoundEvenOp>},
    {Opcode::Rsqrt, unary<math::RsqrtOp>},
    {Opcode::Sign, sign},
    {Opcode::Sine, unary<math::SinOp>},
    {Opcode::Sinh, unary<math::SinhOp>},
    {Opcode::Sqrt, unary<math::SqrtOp>},
    {Opcode::Subtract, binary<arith::SubFOp>},
    {Opcode::Tan, unary<math::TanOp>},
    {Opcode::Tanh, unary<math::TanhOp>},
};

/// One direction's predicates.
struct Relation {
  CmpIPredicate of_signed, of_unsigned;
  CmpFPredicate of_floats;
};

constexpr Relation kRelations[] = {
    // in the order of CompareAttributes::Direction
    {CmpIPredicate::eq, CmpIPredicate::eq, CmpFPredicate::OEQ},
    {CmpIPredicate::ne, CmpIPredicate::ne, CmpFPredicate::UNE},
    {CmpIPredicate::slt, CmpIPredicate::ult, CmpFPredicate::OLT},
    {CmpIPredicate::sle, CmpIPredicate::ule, CmpFPredicate::OLE},
    {CmpIPredicate::sgt, CmpIPredicate::ugt, CmpFPredicate::OGT},
    {CmpIPredicate::sge, CmpIPredicate::uge, CmpFPredicate::OGE},
};

/// An integer whose order is the total order of floats: below 0 all bits but the sign are flipped.
Value order_key(ImplicitLocOpBuilder& b, Value x) {
  const unsigned width = x.getType().getIntOrFloatBitWidth();
  const mlir::Type type = b.getIntegerType(width);
  const Value bits = b.create<mlir::LLVM::BitcastOp>(type, x);
  const Value signs = b.create<arith::ShRSIOp>(bits, integer_constant(b, type, width - 1));
  return b.create<arith::XOrIOp>(bits, b.create<arith::ShRUIOp>(signs, integer_constant(b, type, 1)));
}

/// The same for the weak order: NaN, of either sign, is above all others, and -0 is 0.
Value weak_key(ImplicitLocOpBuilder& b, Value x) {
  mlir::FloatType type = llvm::cast<mlir::FloatType>(x.getType());
  const Value zero = b.create<arith::ConstantFloatOp>(llvm::APFloat::getZero(type.getFloatSemantics()), type);
  const Value is_zero = b.create<arith::CmpFOp>(CmpFPredicate::OEQ, x, zero);
  const Value key = order_key(b, b.create<arith::SelectOp>(is_zero, zero, x));
  const Value is_nan = b.create<arith::CmpFOp>(CmpFPredicate::UNO, x, x);
  const Value most = b.create<arith::ConstantOp>(
      b.getIntegerAttr(key.getType(), llvm::APInt::getSignedMaxValue(key.getType().getIntOrFloatBitWidth())));
  return b.create<arith::SelectOp>(is_nan, most, key);
}

}  // namespace

Value emit_float(ImplicitLocOpBuilder& builder, Opcode opcode, ValueRange operands) {
  const auto found = llvm::find_if(kFloatOperators, [&](const FloatOperator& o) { return o.opcode == opcode; });
  assert(found != std::end(kFloatOperators));
  return found->emit(builder, operands);
}

Value emit_compare(ImplicitLocOpBuilder& builder, const hlo::CompareAttributes& how, ElementType type, Value lhs,
                   Value rhs) {
  const Relation& relation = kRelations[static_cast<size_t>(how.direction)];
  if (hlo::is_complex(type)) {
    const Value real = builder.create<arith::CmpFOp>(relation.of_floats, builder.create<complex::ReOp>(lhs),
                                                     builder.create<complex::ReOp>(rhs));
    const Value imaginary = builder.create<arith::CmpFOp>(relation.of_floats, builder.create<complex::ImOp>(lhs),
                                                          builder.create<complex::ImOp>(rhs));
    if (how.direction == hlo::CompareAttributes::Direction::EQ) return builder.create<arith::AndIOp>(real, imaginary);
    return builder.create<arith::OrIOp>(real, imaginary);
  }
  if (!hlo::is_float(type)) {
    return builder.create<arith::CmpIOp>(hlo::is_signed(type) ? relation.of_signed : relation.of_unsigned, lhs, rhs);
  }
  lhs = to_computed(builder, lhs, type);
  rhs = to_computed(builder, rhs, type);
  using Order = hlo::CompareAttributes::Order;
  if (how.order == Order::Partial) return builder.create<arith::CmpFOp>(relation.of_floats, lhs, rhs);
  if (how.order == Order::Weak) {
    lhs = weak_key(builder, lhs);
    rhs = weak_key(builder, rhs);
    return builder.create<arith::CmpIOp>(relation.of_signed, lhs, rhs);
  }
  return builder.create<arith::CmpIOp>(relation.of_signed, order_key(builder, lhs), order_key(builder, rhs));
}

}  // namespace strata::emitters
