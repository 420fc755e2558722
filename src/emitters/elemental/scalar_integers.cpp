// Operators on integers and pred. HLO defines what MLIR leaves undefined: division by 0, the overflow of a quotient,
// and shifts past the width.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/SCF/IR/SCF.h>

#include "emitters/elemental/scalar_parts.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
namespace math = mlir::math;
using arith::CmpIPredicate;
using hlo::Opcode;
using mlir::ImplicitLocOpBuilder;
using mlir::Value;
using mlir::ValueRange;

unsigned width(Value x) { return x.getType().getIntOrFloatBitWidth(); }
Value constant(ImplicitLocOpBuilder& b, Value like, int64_t value) {
  return integer_constant(b, like.getType(), value);
}
Value select(ImplicitLocOpBuilder& b, Value condition, Value yes, Value no) {
  return b.create<arith::SelectOp>(condition, yes, no);
}
Value compare(ImplicitLocOpBuilder& b, CmpIPredicate predicate, Value x, int64_t with) {
  return b.create<arith::CmpIOp>(predicate, x, constant(b, x, with));
}

Value extend(ImplicitLocOpBuilder& b, Value x, unsigned bits, bool is_signed) {
  if (width(x) == bits) return x;
  const mlir::Type type = b.getIntegerType(bits);
  if (is_signed) return b.create<arith::ExtSIOp>(type, x);
  return b.create<arith::ExtUIOp>(type, x);
}
Value truncate(ImplicitLocOpBuilder& b, Value x, mlir::Type type) {
  return x.getType() == type ? x : b.create<arith::TruncIOp>(type, x).getResult();
}

/// An operator computed in 32 bits where its operands are narrower: 1 and -1 are one number in 1 bit, and no quotient
/// of narrower numbers overflows.
template <bool is_signed, ScalarEmitter emit>
Value in_32_bits(ImplicitLocOpBuilder& b, ValueRange x) {
  llvm::SmallVector<Value> wide;
  for (const Value operand : x) wide.push_back(extend(b, operand, std::max(width(operand), 32U), is_signed));
  return truncate(b, emit(b, wide), x[0].getType());
}

Value negate(ImplicitLocOpBuilder& b, ValueRange x) { return b.create<arith::SubIOp>(constant(b, x[0], 0), x[0]); }
Value complement(ImplicitLocOpBuilder& b, ValueRange x) { return b.create<arith::XOrIOp>(x[0], constant(b, x[0], -1)); }
Value same(ImplicitLocOpBuilder&, ValueRange x) { return x[0]; }

Value absolute(ImplicitLocOpBuilder& b, ValueRange x) {
  return select(b, compare(b, CmpIPredicate::slt, x[0], 0), negate(b, x), x[0]);
}

Value unsigned_sign(ImplicitLocOpBuilder& b, ValueRange x) {
  return extend(b, compare(b, CmpIPredicate::ne, x[0], 0), width(x[0]), false);
}
Value signed_sign(ImplicitLocOpBuilder& b, ValueRange x) {
  const Value all_sign = b.create<arith::ShRSIOp>(x[0], constant(b, x[0], width(x[0]) - 1));
  return b.create<arith::OrIOp>(all_sign, unsigned_sign(b, x));
}

Value leading_zeros(ImplicitLocOpBuilder& b, ValueRange x) {
  const Value wide = extend(b, x[0], std::max(width(x[0]), 32U), false);
  const Value zeros = b.create<math::CountLeadingZerosOp>(wide);
  return truncate(b, b.create<arith::SubIOp>(zeros, constant(b, wide, width(wide) - width(x[0]))), x[0].getType());
}

/// The divisor, or 1 where the division is not the hardware's to do.
Value safe_divisor(ImplicitLocOpBuilder& b, Value unsafe, Value divisor) {
  return select(b, unsafe, constant(b, divisor, 1), divisor);
}
Value is_zero(ImplicitLocOpBuilder& b, Value x) { return compare(b, CmpIPredicate::eq, x, 0); }

Value unsigned_divide(ImplicitLocOpBuilder& b, ValueRange x) {
  const Value zero = is_zero(b, x[1]);
  const Value quotient = b.create<arith::DivUIOp>(x[0], safe_divisor(b, zero, x[1]));
  return select(b, zero, constant(b, x[0], -1), quotient);
}
Value unsigned_remainder(ImplicitLocOpBuilder& b, ValueRange x) {
  const Value zero = is_zero(b, x[1]);
  return select(b, zero, x[0], b.create<arith::RemUIOp>(x[0], safe_divisor(b, zero, x[1])));
}
Value signed_divide(ImplicitLocOpBuilder& b, ValueRange x) {
  const Value zero = is_zero(b, x[1]);
  const Value minus_one = compare(b, CmpIPredicate::eq, x[1], -1);
  const Value divisor = safe_divisor(b, b.create<arith::OrIOp>(zero, minus_one), x[1]);
  const Value quotient = select(b, minus_one, negate(b, x[0]), b.create<arith::DivSIOp>(x[0], divisor));
  return select(b, zero, constant(b, x[0], -1), quotient);
}
Value signed_remainder(ImplicitLocOpBuilder& b, ValueRange x) {
  const Value zero = is_zero(b, x[1]);
  const Value minus_one = compare(b, CmpIPredicate::eq, x[1], -1);
  const Value divisor = safe_divisor(b, b.create<arith::OrIOp>(zero, minus_one), x[1]);
  return select(b, zero, x[0], b.create<arith::RemSIOp>(x[0], divisor));
}

/// By squaring, modulo 2^width.
Value unsigned_power(ImplicitLocOpBuilder& b, ValueRange x) {
  const mlir::Type type = x[0].getType();
  const Value one = constant(b, x[0], 1);
  const auto more = [&](mlir::OpBuilder& inner, mlir::Location location, ValueRange state) {
    ImplicitLocOpBuilder before(location, inner);
    before.create<mlir::scf::ConditionOp>(compare(before, CmpIPredicate::ne, state[2], 0), state);
  };
  const auto step = [&](mlir::OpBuilder& inner, mlir::Location location, ValueRange state) {
    ImplicitLocOpBuilder after(location, inner);
    const Value odd = after.create<arith::TruncIOp>(after.getI1Type(), state[2]);
    const Value product = after.create<arith::MulIOp>(state[0], state[1]);
    const Value result = select(after, odd, product, state[0]);
    const Value factor = after.create<arith::MulIOp>(state[1], state[1]);
    const Value rest = after.create<arith::ShRUIOp>(state[2], one);
    after.create<mlir::scf::YieldOp>(ValueRange{result, factor, rest});
  };
  const llvm::SmallVector<mlir::Type> types(3, type);
  return b.create<mlir::scf::WhileOp>(types, ValueRange{one, x[0], x[1]}, more, step).getResult(0);
}

/// A negative exponent leaves only what is invertible: 1 and -1.
Value signed_power(ImplicitLocOpBuilder& b, ValueRange x) {
  const Value zero = constant(b, x[0], 0);
  const Value one = constant(b, x[0], 1);
  const Value minus_one = constant(b, x[0], -1);
  const Value negative = compare(b, CmpIPredicate::slt, x[1], 0);
  const Value power = unsigned_power(b, {x[0], select(b, negative, zero, x[1])});
  const Value odd = b.create<arith::TruncIOp>(b.getI1Type(), x[1]);
  const Value of_minus_one = select(b, compare(b, CmpIPredicate::eq, x[0], -1), select(b, odd, minus_one, one), zero);
  const Value inverse = select(b, compare(b, CmpIPredicate::eq, x[0], 1), one, of_minus_one);
  return select(b, negative, inverse, power);
}

template <bool is_signed>
Value high_product(ImplicitLocOpBuilder& b, ValueRange x) {
  const unsigned bits = width(x[0]);
  const Value product =
      b.create<arith::MulIOp>(extend(b, x[0], 2 * bits, is_signed), extend(b, x[1], 2 * bits, is_signed));
  return truncate(b, b.create<arith::ShRUIOp>(product, constant(b, product, bits)), x[0].getType());
}

/// Amounts are unsigned; those past the width leave 0.
template <class Shift>
Value logical_shift(ImplicitLocOpBuilder& b, ValueRange x) {
  const Value inside = compare(b, CmpIPredicate::ule, x[1], width(x[0]) - 1);
  return select(b, inside, b.create<Shift>(x[0], x[1]), constant(b, x[0], 0));
}
Value arithmetic_shift(ImplicitLocOpBuilder& b, ValueRange x) {
  const Value amount = b.create<arith::MinUIOp>(x[1], constant(b, x[1], width(x[0]) - 1));
  return b.create<arith::ShRSIOp>(x[0], amount);
}

template <class Minimum, class Maximum>
Value clamp(ImplicitLocOpBuilder& b, ValueRange x) {
  return b.create<Minimum>(b.create<Maximum>(x[0], x[1]), x[2]);
}

struct IntegerOperator {
  Opcode opcode;
  ScalarEmitter emit_signed;
  ScalarEmitter emit_unsigned;
};

constexpr IntegerOperator kIntegerOperators[] = {
    {Opcode::Abs, absolute, same},
    {Opcode::Add, binary<arith::AddIOp>, binary<arith::AddIOp>},
    {Opcode::And, binary<arith::AndIOp>, binary<arith::AndIOp>},
    {Opcode::Clamp, clamp<arith::MinSIOp, arith::MaxSIOp>, clamp<arith::MinUIOp, arith::MaxUIOp>},
    {Opcode::Clz, leading_zeros, leading_zeros},
    {Opcode::Divide, in_32_bits<true, signed_divide>, in_32_bits<false, unsigned_divide>},
    {Opcode::Maximum, binary<arith::MaxSIOp>, binary<arith::MaxUIOp>},
    {Opcode::Minimum, binary<arith::MinSIOp>, binary<arith::MinUIOp>},
    {Opcode::Mulhi, high_product<true>, high_product<false>},
    {Opcode::Multiply, binary<arith::MulIOp>, binary<arith::MulIOp>},
    {Opcode::Negate, negate, negate},
    {Opcode::Not, complement, complement},
    {Opcode::Or, binary<arith::OrIOp>, binary<arith::OrIOp>},
    {Opcode::Popcnt, in_32_bits<false, unary<math::CtPopOp>>, in_32_bits<false, unary<math::CtPopOp>>},
    {Opcode::Power, in_32_bits<true, signed_power>, in_32_bits<false, unsigned_power>},
    {Opcode::Remainder, in_32_bits<true, signed_remainder>, in_32_bits<false, unsigned_remainder>},
    {Opcode::ShiftLeft, logical_shift<arith::ShLIOp>, logical_shift<arith::ShLIOp>},
    {Opcode::ShiftRightArithmetic, arithmetic_shift, arithmetic_shift},
    {Opcode::ShiftRightLogical, logical_shift<arith::ShRUIOp>, logical_shift<arith::ShRUIOp>},
    {Opcode::Sign, signed_sign, unsigned_sign},
    {Opcode::Subtract, binary<arith::SubIOp>, binary<arith::SubIOp>},
    {Opcode::Xor, binary<arith::XOrIOp>, binary<arith::XOrIOp>},
};

}  // namespace

Value emit_integer(ImplicitLocOpBuilder& builder, Opcode opcode, hlo::ElementType type, ValueRange operands) {
  if (type == hlo::ElementType::Pred) {  // as integers of any width that are not 0
    if (opcode == Opcode::Add) opcode = Opcode::Or;
    if (opcode == Opcode::Multiply) opcode = Opcode::And;
  }
  const auto found = llvm::find_if(kIntegerOperators, [&](const IntegerOperator& o) { return o.opcode == opcode; });
  assert(found != std::end(kIntegerOperators));
  return (hlo::is_signed(type) ? found->emit_signed : found->emit_unsigned)(builder, operands);
}

}  // namespace strata::emitters
