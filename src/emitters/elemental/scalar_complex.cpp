// Operators on complex numbers. All but the exact ones and absolute values are computed in f64, as the interpreter
// does: products of f32 do not cancel there, nothing overflows, and emitters/math needs functions of c128 only.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Complex/IR/Complex.h>
#include <mlir/Dialect/Math/IR/Math.h>

#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/scalar_parts.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
namespace complex = mlir::complex;
namespace math = mlir::math;
using hlo::Opcode;
using mlir::ImplicitLocOpBuilder;
using mlir::Value;
using mlir::ValueRange;

/// Real and imaginary part.
struct Parts {
  Value re, im;
};

Parts parts(ImplicitLocOpBuilder& b, Value z) { return {b.create<complex::ReOp>(z), b.create<complex::ImOp>(z)}; }
Value make(ImplicitLocOpBuilder& b, Value re, Value im) {
  return b.create<complex::CreateOp>(mlir::ComplexType::get(re.getType()), re, im);
}
Value number(ImplicitLocOpBuilder& b, double value) { return float_constant(b, b.getF64Type(), value); }
Value one(ImplicitLocOpBuilder& b) { return make(b, number(b, 1), number(b, 0)); }

Value add(ImplicitLocOpBuilder& b, Value x, Value y) { return b.create<arith::AddFOp>(x, y); }
Value subtract(ImplicitLocOpBuilder& b, Value x, Value y) { return b.create<arith::SubFOp>(x, y); }
Value multiply(ImplicitLocOpBuilder& b, Value x, Value y) { return b.create<arith::MulFOp>(x, y); }

// --- in the type itself ---

template <Value part(ImplicitLocOpBuilder&, Value, Value)>
Value by_parts(ImplicitLocOpBuilder& b, ValueRange x) {
  const Parts lhs = parts(b, x[0]);
  const Parts rhs = parts(b, x[1]);
  return make(b, part(b, lhs.re, rhs.re), part(b, lhs.im, rhs.im));
}

Value negate(ImplicitLocOpBuilder& b, ValueRange x) {
  const Parts z = parts(b, x[0]);
  return make(b, b.create<arith::NegFOp>(z.re), b.create<arith::NegFOp>(z.im));
}

// --- in f64 ---

Value times_i(ImplicitLocOpBuilder& b, Value value) {
  const Parts z = parts(b, value);
  return make(b, b.create<arith::NegFOp>(z.im), z.re);
}
Value times_minus_i(ImplicitLocOpBuilder& b, Value value) {
  const Parts z = parts(b, value);
  return make(b, z.im, b.create<arith::NegFOp>(z.re));
}

Value product(ImplicitLocOpBuilder& b, ValueRange x) {
  const Parts lhs = parts(b, x[0]);
  const Parts rhs = parts(b, x[1]);
  return make(b, subtract(b, multiply(b, lhs.re, rhs.re), multiply(b, lhs.im, rhs.im)),
              add(b, multiply(b, lhs.re, rhs.im), multiply(b, lhs.im, rhs.re)));
}

/// A function of emitters/math that the dialect has no operation for.
Value call(ImplicitLocOpBuilder& b, const char* name, Value z) { return call_library(b, name, z.getType(), z); }
Value acos(ImplicitLocOpBuilder& b, ValueRange x) { return call(b, "strata_acos_c128", x[0]); }
Value acosh(ImplicitLocOpBuilder& b, ValueRange x) { return call(b, "strata_acosh_c128", x[0]); }
Value asinh(ImplicitLocOpBuilder& b, ValueRange x) { return call(b, "strata_asinh_c128", x[0]); }
Value atanh(ImplicitLocOpBuilder& b, ValueRange x) { return call(b, "strata_atanh_c128", x[0]); }

/// -i · f(i·z): trigonometric functions from hyperbolic ones, and back.
template <ScalarEmitter f>
Value rotated(ImplicitLocOpBuilder& b, ValueRange x) {
  return times_minus_i(b, f(b, times_i(b, x[0])));
}

Value cosh(ImplicitLocOpBuilder& b, ValueRange x) { return b.create<complex::CosOp>(times_i(b, x[0])); }

Value expm1(ImplicitLocOpBuilder& b, ValueRange x) {
  const Parts z = parts(b, x[0]);
  const Value half_sine = b.create<math::SinOp>(multiply(b, z.im, number(b, 0.5)));
  const Value growth = multiply(b, b.create<math::ExpM1Op>(z.re), b.create<math::CosOp>(z.im));
  const Value turn = multiply(b, multiply(b, number(b, 2), half_sine), half_sine);
  const Value im = multiply(b, b.create<math::ExpOp>(z.re), b.create<math::SinOp>(z.im));
  return make(b, subtract(b, growth, turn), im);
}

Value log1p(ImplicitLocOpBuilder& b, ValueRange x) {
  const Parts z = parts(b, x[0]);
  const Value excess = add(b, multiply(b, z.re, add(b, z.re, number(b, 2))), multiply(b, z.im, z.im));  // |1 + z|² - 1
  return make(b, multiply(b, number(b, 0.5), b.create<math::Log1pOp>(excess)),
              b.create<math::Atan2Op>(z.im, add(b, number(b, 1), z.re)));
}

Value logistic(ImplicitLocOpBuilder& b, ValueRange x) {
  const Value power = b.create<complex::ExpOp>(negate(b, x[0]));
  return b.create<complex::DivOp>(one(b), by_parts<add>(b, {one(b), power}));
}

Value rsqrt(ImplicitLocOpBuilder& b, ValueRange x) {
  return b.create<complex::DivOp>(one(b), b.create<complex::SqrtOp>(x[0]));
}

Value sign(ImplicitLocOpBuilder& b, ValueRange x) {
  const Parts z = parts(b, x[0]);
  const Value size = b.create<complex::AbsOp>(x[0]);
  const Value zero = b.create<arith::CmpFOp>(arith::CmpFPredicate::OEQ, size, number(b, 0));
  const Value direction = make(b, b.create<arith::DivFOp>(z.re, size), b.create<arith::DivFOp>(z.im, size));
  return b.create<arith::SelectOp>(zero, x[0], direction);
}

/// -i · log((x + i·y) / sqrt(x² + y²)).
Value atan2(ImplicitLocOpBuilder& b, ValueRange x) {
  const Value sum = by_parts<add>(b, {x[1], times_i(b, x[0])});
  const Value squares = by_parts<add>(b, {product(b, {x[1], x[1]}), product(b, {x[0], x[0]})});
  const Value direction = b.create<complex::DivOp>(sum, b.create<complex::SqrtOp>(squares));
  return times_minus_i(b, b.create<complex::LogOp>(direction));
}

Value equals_zero(ImplicitLocOpBuilder& b, Parts z) {
  const auto zero = [&](Value x) { return b.create<arith::CmpFOp>(arith::CmpFPredicate::OEQ, x, number(b, 0)); };
  return b.create<arith::AndIOp>(zero(z.re), zero(z.im));
}

/// exp(y · log(x)); 1 for the exponent 0, and 0 for the base 0 where the exponent's real part is above 0.
Value power(ImplicitLocOpBuilder& b, ValueRange x) {
  const Parts exponent = parts(b, x[1]);
  const Value general = b.create<complex::ExpOp>(product(b, {x[1], b.create<complex::LogOp>(x[0])}));
  const Value above = b.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, exponent.re, number(b, 0));
  const Value vanishes = b.create<arith::AndIOp>(equals_zero(b, parts(b, x[0])), above);
  const Value zero = make(b, number(b, 0), number(b, 0));
  const Value nonzero_exponent = b.create<arith::SelectOp>(vanishes, zero, general);
  return b.create<arith::SelectOp>(equals_zero(b, exponent), one(b), nonzero_exponent);
}

struct ComplexOperator {
  Opcode opcode;
  bool exact;  ///< in the type itself, not in f64: nothing is rounded, or no sum cancels
  ScalarEmitter emit;
};

constexpr ComplexOperator kComplexOperators[] = {
    {Opcode::Abs, true, [](ImplicitLocOpBuilder& b, ValueRange x) -> Value { return b.create<complex::AbsOp>(x[0]); }},
    {Opcode::Acos, false, acos},
    {Opcode::Acosh, false, acosh},
    {Opcode::Add, true, by_parts<add>},
    {Opcode::Asin, false, rotated<asinh>},
    {Opcode::Asinh, false, asinh},
    {Opcode::Atan2, false, atan2},
    {Opcode::Atanh, false, atanh},
    {Opcode::Cosh, false, cosh},
    {Opcode::Cosine, false, unary<complex::CosOp>},
    {Opcode::Divide, false, binary<complex::DivOp>},
    {Opcode::Exp, false, unary<complex::ExpOp>},
    {Opcode::Expm1, false, expm1},
    {Opcode::Imag, true, [](ImplicitLocOpBuilder& b, ValueRange x) { return parts(b, x[0]).im; }},
    {Opcode::Log, false, unary<complex::LogOp>},
    {Opcode::Log1p, false, log1p},
    {Opcode::Logistic, false, logistic},
    {Opcode::Multiply, false, product},
    {Opcode::Negate, true, negate},
    {Opcode::Power, false, power},
    {Opcode::Real, true, [](ImplicitLocOpBuilder& b, ValueRange x) { return parts(b, x[0]).re; }},
    {Opcode::Rsqrt, false, rsqrt},
    {Opcode::Sign, false, sign},
    {Opcode::Sine, false, unary<complex::SinOp>},
    {Opcode::Sinh, false, rotated<unary<complex::SinOp>>},
    {Opcode::Sqrt, false, unary<complex::SqrtOp>},
    {Opcode::Subtract, true, by_parts<subtract>},
    {Opcode::Tan, false, rotated<unary<complex::TanhOp>>},
    {Opcode::Tanh, false, unary<complex::TanhOp>},
};

}  // namespace

Value emit_complex(ImplicitLocOpBuilder& builder, Opcode opcode, ValueRange operands) {
  const auto found = llvm::find_if(kComplexOperators, [&](const ComplexOperator& o) { return o.opcode == opcode; });
  assert(found != std::end(kComplexOperators));
  const bool wide = llvm::cast<mlir::ComplexType>(operands[0].getType()).getElementType().isF64();
  if (found->exact || wide) return found->emit(builder, operands);
  const auto c64 = [&](Value z) { return emit_convert(builder, z, hlo::ElementType::C64, hlo::ElementType::C128); };
  const Value result = found->emit(builder, llvm::to_vector(llvm::map_range(operands, c64)));
  const bool is_real = result.getType().isF64();
  return emit_convert(builder, result, is_real ? hlo::ElementType::F64 : hlo::ElementType::C128,
                      is_real ? hlo::ElementType::F32 : hlo::ElementType::C64);
}

}  // namespace strata::emitters
