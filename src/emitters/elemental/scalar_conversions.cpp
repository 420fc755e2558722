// Conversions between element types, by value and by bits.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Complex/IR/Complex.h>
#include <mlir/Dialect/Math/IR/Math.h>

#include <cmath>

#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/scalar_parts.h"
#include "emitters/elemental/types.h"
#include "hlo/small_float.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
namespace complex = mlir::complex;
using arith::CmpFPredicate;
using arith::CmpIPredicate;
using hlo::ElementType;
using mlir::ImplicitLocOpBuilder;
using mlir::Value;

Value select(ImplicitLocOpBuilder& b, Value condition, Value yes, Value no) {
  return b.create<arith::SelectOp>(condition, yes, no);
}

/// An integer with its low bits, or extended.
Value resize(ImplicitLocOpBuilder& b, Value x, mlir::Type type, bool is_signed) {
  const unsigned from = x.getType().getIntOrFloatBitWidth();
  const unsigned to = type.getIntOrFloatBitWidth();
  if (from == to) return x;
  if (to < from) return b.create<arith::TruncIOp>(type, x);
  if (is_signed) return b.create<arith::ExtSIOp>(type, x);
  return b.create<arith::ExtUIOp>(type, x);
}

/// Towards zero, clamped to the integers of `type`; NaN as 0. What the conversion makes of a number that is out of
/// range is poison, and never selected.
Value saturate(ImplicitLocOpBuilder& b, Value x, ElementType type) {
  const int bits = hlo::bit_width(type);
  const mlir::Type held = b.getIntegerType(static_cast<unsigned>(bits));
  const mlir::Type converted = b.getIntegerType(static_cast<unsigned>(std::max(bits, 32)));
  const bool is_signed = hlo::is_signed(type);
  const auto compare = [&](CmpFPredicate predicate, double with) {
    return b.create<arith::CmpFOp>(predicate, x, float_constant(b, x.getType(), with));
  };
  const auto integer = [&](int64_t value) { return integer_constant(b, held, value); };
  const double limit = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  Value result = is_signed ? b.create<arith::FPToSIOp>(converted, x).getResult()
                           : b.create<arith::FPToUIOp>(converted, x).getResult();
  result = resize(b, result, held, is_signed);
  if (!is_signed) {
    result = select(b, compare(CmpFPredicate::OGE, limit), integer(-1), result);
    return select(b, compare(CmpFPredicate::ULE, 0), integer(0), result);
  }
  const int64_t smallest = -1 - static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  result = select(b, compare(CmpFPredicate::OGE, limit), integer(~smallest), result);
  result = select(b, compare(CmpFPredicate::OLT, -limit), integer(smallest), result);
  return select(b, b.create<arith::CmpFOp>(CmpFPredicate::UNO, x, x), integer(0), result);
}

/// f64 to f32 so that rounding that again, to fewer bits, is as rounding once: the last bit of what is not exact is 1.
Value round_to_odd(ImplicitLocOpBuilder& b, Value x) {
  const mlir::Type i32 = b.getI32Type();
  const Value nearest = b.create<arith::TruncFOp>(b.getF32Type(), x);
  const Value back = b.create<arith::ExtFOp>(b.getF64Type(), nearest);
  const Value bits = b.create<arith::BitcastOp>(i32, nearest);
  const Value away =
      b.create<arith::CmpFOp>(CmpFPredicate::OGT, b.create<mlir::math::AbsFOp>(back), b.create<mlir::math::AbsFOp>(x));
  const Value towards_zero = b.create<arith::SubIOp>(bits, resize(b, away, i32, false));
  const Value odd = b.create<arith::OrIOp>(towards_zero, integer_constant(b, i32, 1));
  const Value inexact = b.create<arith::CmpFOp>(CmpFPredicate::ONE, back, x);
  return b.create<arith::BitcastOp>(b.getF32Type(), select(b, inexact, odd, bits));
}

Value convert_float(ImplicitLocOpBuilder& b, Value value, ElementType from, ElementType to) {
  Value x = to_computed(b, value, from);
  if (to == ElementType::Pred) {
    return b.create<arith::CmpFOp>(CmpFPredicate::UNE, x, float_constant(b, x.getType(), 0));
  }
  if (hlo::is_integer(to)) return saturate(b, x, to);
  const mlir::Type computed = compute_type(b.getContext(), to);
  if (x.getType().isF32() && computed.isF64()) x = b.create<arith::ExtFOp>(computed, x);
  if (x.getType().isF64() && to == ElementType::F32) return b.create<arith::TruncFOp>(computed, x);
  if (x.getType().isF64() && computed.isF32()) x = round_to_odd(b, x);
  return to_held(b, x, to);
}

Value convert_integer(ImplicitLocOpBuilder& b, Value value, ElementType from, ElementType to) {
  const bool is_signed = hlo::is_signed(from);
  if (to == ElementType::Pred) {
    return b.create<arith::CmpIOp>(CmpIPredicate::ne, value, integer_constant(b, value.getType(), 0));
  }
  if (hlo::is_integer(to)) return resize(b, value, element_type(b.getContext(), to), is_signed);
  const mlir::Type computed = compute_type(b.getContext(), to);
  const Value x = is_signed ? b.create<arith::SIToFPOp>(computed, value).getResult()
                            : b.create<arith::UIToFPOp>(computed, value).getResult();
  return to_held(b, x, to);
}

// --- bits ---

/// An element's bits as an integer; not of c128.
Value to_bits(ImplicitLocOpBuilder& b, Value value, ElementType type) {
  if (type == ElementType::Pred) return resize(b, value, b.getI8Type(), false);
  if (type == ElementType::C64) {
    const mlir::Type i64 = b.getI64Type();
    const Value low = resize(b, to_bits(b, b.create<complex::ReOp>(value), ElementType::F32), i64, false);
    const Value high = resize(b, to_bits(b, b.create<complex::ImOp>(value), ElementType::F32), i64, false);
    return b.create<arith::OrIOp>(low, b.create<arith::ShLIOp>(high, integer_constant(b, i64, 32)));
  }
  const mlir::Type bits = b.getIntegerType(static_cast<unsigned>(hlo::bit_width(type)));
  if (hlo::is_float(type) && !is_small_float(type)) return b.create<arith::BitcastOp>(bits, value);
  return resize(b, value, bits, false);
}

Value of_bits(ImplicitLocOpBuilder& b, Value bits, ElementType type) {
  const mlir::Type held = element_type(b.getContext(), type);
  if (type == ElementType::Pred) {
    return b.create<arith::CmpIOp>(CmpIPredicate::ne, bits, integer_constant(b, bits.getType(), 0));
  }
  if (type == ElementType::C64) {
    const Value high = b.create<arith::ShRUIOp>(bits, integer_constant(b, bits.getType(), 32));
    const auto part = [&](Value x) { return of_bits(b, resize(b, x, b.getI32Type(), false), ElementType::F32); };
    return b.create<complex::CreateOp>(held, part(bits), part(high));
  }
  if (llvm::isa<mlir::FloatType>(held)) return b.create<arith::BitcastOp>(held, bits);
  return resize(b, bits, held, false);
}

}  // namespace

Value to_computed(ImplicitLocOpBuilder& builder, Value value, ElementType type) {
  const mlir::Type computed = compute_type(builder.getContext(), type);
  if (value.getType() == computed) return value;
  if (is_small_float(type)) return call_library(builder, fmt::format("strata_{}_to_f32", name(type)), computed, value);
  return builder.create<arith::ExtFOp>(computed, value);
}

Value to_held(ImplicitLocOpBuilder& builder, Value value, ElementType type) {
  const mlir::Type held = element_type(builder.getContext(), type);
  if (value.getType() == held) return value;
  if (is_small_float(type)) return call_library(builder, fmt::format("strata_f32_to_{}", name(type)), held, value);
  return builder.create<arith::TruncFOp>(held, value);
}

Value emit_convert(ImplicitLocOpBuilder& builder, Value value, ElementType from, ElementType to) {
  if (from == to) return value;
  if (hlo::is_complex(from)) {
    ElementType part = hlo::part_type(from);
    Value re = builder.create<complex::ReOp>(value);
    if (hlo::is_complex(to)) {
      const Value im = builder.create<complex::ImOp>(value);
      const ElementType to_part = hlo::part_type(to);
      return builder.create<complex::CreateOp>(element_type(builder.getContext(), to),
                                               emit_convert(builder, re, part, to_part),
                                               emit_convert(builder, im, part, to_part));
    }
    if (hlo::is_float(to) && hlo::bit_width(to) < 32) {  // rounded twice, as the interpreter does
      re = emit_convert(builder, re, part, ElementType::F32);
      part = ElementType::F32;
    }
    return emit_convert(builder, re, part, to);
  }
  if (hlo::is_complex(to)) {
    const Value re = emit_convert(builder, value, from, hlo::part_type(to));
    const Value zero = float_constant(builder, re.getType(), 0);
    return builder.create<complex::CreateOp>(element_type(builder.getContext(), to), re, zero);
  }
  return hlo::is_float(from) ? convert_float(builder, value, from, to) : convert_integer(builder, value, from, to);
}

Value emit_bitcast_convert(ImplicitLocOpBuilder& builder, Value value, ElementType from, ElementType to) {
  if (from == to) return value;
  return of_bits(builder, to_bits(builder, value, from), to);
}

Value emit_reduce_precision(ImplicitLocOpBuilder& builder, const hlo::ReducePrecisionAttributes& how, ElementType type,
                            Value value) {
  if (type == ElementType::F8E8M0FNU || hlo::format_of(type).special != hlo::FloatFormat::Special::Ieee) {
    // Formats with other specials go through one that has infinities.
    const Value wide = to_computed(builder, value, type);
    return to_held(builder, emit_reduce_precision(builder, how, ElementType::F32, wide), type);
  }
  const hlo::FloatFormat own = hlo::format_of(type);
  const Value code = to_bits(builder, value, type);
  const auto constant = [&](uint64_t x) { return integer_constant(builder, code.getType(), static_cast<int64_t>(x)); };
  const auto compare = [&](CmpIPredicate predicate, Value x, uint64_t with) {
    return builder.create<arith::CmpIOp>(predicate, x, constant(with));
  };
  const uint64_t sign_bit = uint64_t{1} << (own.width() - 1);
  const uint64_t infinity = ((uint64_t{1} << own.exponent_bits) - 1) << own.mantissa_bits;
  const Value sign = builder.create<arith::AndIOp>(code, constant(sign_bit));
  const Value magnitude = builder.create<arith::AndIOp>(code, constant(sign_bit - 1));
  Value reduced = magnitude;
  if (how.mantissa_bits < own.mantissa_bits) {  // to nearest, ties to even
    const int dropped = own.mantissa_bits - how.mantissa_bits;
    const Value shifted = builder.create<arith::ShRUIOp>(magnitude, constant(static_cast<uint64_t>(dropped)));
    const Value odd = builder.create<arith::AndIOp>(shifted, constant(1));
    const Value half = builder.create<arith::AddIOp>(odd, constant((uint64_t{1} << (dropped - 1)) - 1));
    const Value kept = constant(~((uint64_t{1} << dropped) - 1));
    reduced = builder.create<arith::AndIOp>(builder.create<arith::AddIOp>(magnitude, half), kept);
  }
  if (how.exponent_bits < own.exponent_bits) {  // too large becomes infinite, what is below the normal numbers 0
    const int64_t bias = (int64_t{1} << (how.exponent_bits - 1)) - 1;
    const auto exponent = [&](int64_t e) { return static_cast<uint64_t>(own.bias + e) << own.mantissa_bits; };
    const Value large = compare(CmpIPredicate::uge, reduced, exponent(bias + 1));
    const Value small = compare(CmpIPredicate::ult, reduced, exponent(1 - bias));
    reduced = select(builder, large, constant(infinity), select(builder, small, constant(0), reduced));
  }
  const Value nan = compare(CmpIPredicate::ugt, magnitude, infinity);
  reduced = select(builder, nan, magnitude, reduced);
  return of_bits(builder, builder.create<arith::OrIOp>(sign, reduced), type);
}

}  // namespace strata::emitters
