// Functions, conversions and complex arithmetic that have no instruction become calls of emitters/math, whose functions
// are named strata_NAME_f32 and so on.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Complex/IR/Complex.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/SCF/IR/SCF.h>

#include <cmath>
#include <functional>
#include <optional>

#include "emitters/dialect/dialect.h"
#include "emitters/transforms/passes.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
namespace complex = mlir::complex;
namespace LLVM = mlir::LLVM;
using mlir::OpBuilder;
using mlir::Operation;
using mlir::Type;
using mlir::Value;
using mlir::func::FuncOp;

struct Name {
  const char* operation;
  const char* function;
};

/// Operations on real numbers, and the functions' names without type.
constexpr Name kReal[] = {
    {"arith.remf", "remainder"}, {"math.acos", "acos"},   {"math.acosh", "acosh"}, {"math.asin", "asin"},
    {"math.asinh", "asinh"},     {"math.atan2", "atan2"}, {"math.atanh", "atanh"}, {"math.cbrt", "cbrt"},
    {"math.cos", "cos"},         {"math.cosh", "cosh"},   {"math.erf", "erf"},     {"math.exp", "exp"},
    {"math.expm1", "expm1"},     {"math.log", "log"},     {"math.log1p", "log1p"}, {"math.powf", "pow"},
    {"math.round", "round_afz"}, {"math.rsqrt", "rsqrt"}, {"math.sin", "sin"},     {"math.sinh", "sinh"},
    {"math.tan", "tan"},         {"math.tanh", "tanh"},
};

/// The same on complex numbers, with complex results.
constexpr Name kComplex[] = {
    {"complex.atan2", "atan2"}, {"complex.cos", "cos"},   {"complex.div", "divide"},  {"complex.exp", "exp"},
    {"complex.expm1", "expm1"}, {"complex.log", "log"},   {"complex.log1p", "log1p"}, {"complex.pow", "pow"},
    {"complex.rsqrt", "rsqrt"}, {"complex.sign", "sign"}, {"complex.sin", "sin"},     {"complex.sqrt", "sqrt"},
    {"complex.tan", "tan"},     {"complex.tanh", "tanh"},
};

/// Those that have a version for results of 16 bits.
constexpr const char* kHalf[] = {"erf", "erfc", "exp", "log", "logistic", "tanh"};
/// Those that have one for results of bf16 alone.
constexpr const char* kBf16[] = {"tanh"};

const char* lookup(llvm::ArrayRef<Name> names, Operation* op) {
  const auto name = op->getName().getStringRef();
  const auto* place = llvm::find_if(names, [&](const Name& one) { return name == one.operation; });
  return place == names.end() ? nullptr : place->function;
}

bool is_half(Type type) { return type.isF16() || type.isBF16(); }

/// Whether nothing but bf16 is made of the value.
bool is_rounded_to_bf16(Value value) {
  return !value.use_empty() && llvm::all_of(value.getUsers(), [](Operation* user) {
    return llvm::isa<arith::TruncFOp>(user) && user->getResult(0).getType().isBF16();
  });
}

/// Whether nothing but floats of 16 bits are made of the value: by rounding, or after products and quotients, which
/// keep relative errors as small as they are.
bool is_rounded_to_half(Value value, int products = 3) {
  return !value.use_empty() && llvm::all_of(value.getUsers(), [products](Operation* user) {
    if (llvm::isa<arith::TruncFOp>(user)) return is_half(user->getResult(0).getType());
    if (!llvm::isa<arith::MulFOp, arith::DivFOp, arith::NegFOp>(user) || products == 0) return false;
    return is_rounded_to_half(user->getResult(0), products - 1);
  });
}

/// What the emitter knows of a function, or what is seen here: that nothing but floats of 16 bits are made of it.
bool may_be_short(Operation* op) {
  return op->hasAttr("strata.rounded_to_half") || is_rounded_to_half(op->getResult(0));
}

bool is_constant(Value value) {
  Operation* op = value.getDefiningOp();
  return op != nullptr && op->hasTrait<mlir::OpTrait::ConstantLike>();
}

/// Quotients of f32 whose divisor is worth an inverse: it is divided by again, or stays the same in a loop.
class SharedDivisors {
 public:
  using Inverse = std::function<Value(OpBuilder&, mlir::Location, Value)>;

  /// `inverse_of_normal` makes the inverse of a number whose inverse is a normal number, or not finite.
  SharedDivisors(mlir::ModuleOp module, Inverse inverse_of_normal) : inverse_of_normal_(std::move(inverse_of_normal)) {
    module.walk([&](arith::DivFOp op) {
      if (op.getType().isF32() && !is_rounded_to_half(op.getResult())) ++quotients_[op.getRhs()];
    });
  }

  /// x / y = (x · scale) · (1 / (y · scale)), to 1.5 ulp: the scale, a power of two, keeps the inverse a normal number.
  bool replace(arith::DivFOp op) {
    if (!op.getType().isF32() || !worthwhile(op)) return false;
    const auto [scale, inverse] = inverse_of(op.getRhs(), op.getLoc());
    OpBuilder builder(op);
    const Value scaled = builder.create<arith::MulFOp>(op.getLoc(), op.getLhs(), scale);
    op.replaceAllUsesWith(builder.create<arith::MulFOp>(op.getLoc(), scaled, inverse).getResult());
    op.erase();
    return true;
  }

 private:
  bool worthwhile(arith::DivFOp op) const {
    const auto known = quotients_.find(op.getRhs());
    if (known == quotients_.end() || is_constant(op.getLhs())) return false;  // 1 / y is the inverse itself
    if (known->second > 1 || is_constant(op.getRhs())) return true;
    auto loop = op->getParentOfType<mlir::scf::ForOp>();
    return loop && loop.isDefinedOutsideOfLoop(op.getRhs());
  }

  std::pair<Value, Value> inverse_of(Value divisor, mlir::Location location) {
    auto& [scale, inverse] = inverses_[divisor];
    if (scale) return {scale, inverse};
    OpBuilder builder(divisor.getContext());
    builder.setInsertionPointAfterValue(divisor);
    const auto constant = [&](float value) {
      return builder.create<arith::ConstantOp>(location, builder.getF32FloatAttr(value));
    };
    const Value size = builder.create<mlir::math::AbsFOp>(location, divisor);
    const Value small = builder.create<arith::CmpFOp>(location, arith::CmpFPredicate::OLT, size, constant(0x1p-126F));
    const Value large = builder.create<arith::CmpFOp>(location, arith::CmpFPredicate::OGT, size, constant(0x1p126F));
    scale = builder.create<arith::SelectOp>(location, large, constant(0x1p-4F), constant(1));
    scale = builder.create<arith::SelectOp>(location, small, constant(0x1p24F), scale);
    const Value scaled = builder.create<arith::MulFOp>(location, divisor, scale);
    inverse = inverse_of_normal_(builder, location, scaled);
    return {scale, inverse};
  }

  Inverse inverse_of_normal_;
  llvm::DenseMap<Value, int> quotients_;  ///< by divisor
  llvm::DenseMap<Value, std::pair<Value, Value>> inverses_;
};

/// The inverse of a power of two, which is exact.
Value exact_inverse(OpBuilder& builder, Value divisor) {
  auto constant = divisor.getDefiningOp<arith::ConstantOp>();
  auto value = constant ? llvm::dyn_cast<mlir::FloatAttr>(constant.getValue()) : mlir::FloatAttr();
  llvm::APFloat inverse(0.0);
  if (!value || !value.getValue().getExactInverse(&inverse)) return {};
  return builder.create<arith::ConstantOp>(divisor.getLoc(), builder.getFloatAttr(divisor.getType(), inverse));
}

/// Quotients by powers of two are products, which are as exact; also by one of two, as gradients of maxima and minima
/// divide by 2 where both sides are equal.
void multiply_instead(arith::DivFOp op) {
  OpBuilder builder(op);
  Value factor = exact_inverse(builder, op.getRhs());
  if (auto select = op.getRhs().getDefiningOp<arith::SelectOp>(); select && !factor) {
    const Value yes = exact_inverse(builder, select.getTrueValue());
    const Value no = exact_inverse(builder, select.getFalseValue());
    if (yes && no) factor = builder.create<arith::SelectOp>(op.getLoc(), select.getCondition(), yes, no);
  }
  if (!factor) return;
  op.replaceAllUsesWith(builder.create<arith::MulFOp>(op.getLoc(), op.getLhs(), factor).getResult());
  op.erase();
}

/// The float of 16 bits that an f32 was widened from, or that has a constant's value.
Value narrow_value(OpBuilder& builder, Value wide, Type narrow) {
  if (auto widened = wide.getDefiningOp<arith::ExtFOp>(); widened && widened.getIn().getType() == narrow) {
    return widened.getIn();
  }
  auto constant = wide.getDefiningOp<arith::ConstantOp>();
  auto value = constant ? llvm::dyn_cast<mlir::FloatAttr>(constant.getValue()) : mlir::FloatAttr();
  if (!value) return {};
  llvm::APFloat rounded = value.getValue();
  bool lossy = false;
  rounded.convert(llvm::cast<mlir::FloatType>(narrow).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  if (lossy || rounded.isNaN()) return {};
  return builder.create<arith::ConstantOp>(wide.getLoc(), builder.getFloatAttr(narrow, rounded));
}

/// Sums and products of two floats of 16 bits that are computed in f32 and rounded are what their own instructions
/// give: f32 has more than twice their digits, so rounding twice does no harm (but for products below the normal
/// numbers).
bool narrow_arithmetic(arith::TruncFOp rounding) {
  const Type narrow = rounding.getType();
  Operation* op = rounding.getIn().getDefiningOp();
  if (!is_half(narrow) || op == nullptr || !llvm::isa<arith::AddFOp, arith::SubFOp, arith::MulFOp>(op)) return false;
  if (!op->getResult(0).getType().isF32()) return false;
  OpBuilder builder(rounding);
  const Value lhs = narrow_value(builder, op->getOperand(0), narrow);
  const Value rhs = lhs ? narrow_value(builder, op->getOperand(1), narrow) : Value();
  if (!rhs) return false;
  mlir::OperationState state(op->getLoc(), op->getName(), {lhs, rhs}, {narrow});
  rounding.replaceAllUsesWith(builder.create(state)->getResult(0));
  rounding.erase();
  return true;
}

class Expansion {
 public:
  Expansion(mlir::ModuleOp module, const LoweringOptions& options) : module_(module), options_(options) {}

  void run() {
    llvm::SmallVector<Operation*> operations;
    module_.walk([&](arith::DivFOp op) { multiply_instead(op); });
    module_.walk([&](Operation* op) { operations.push_back(op); });
    if (options_.processor == Processor::Gpu) {
      SharedDivisors divisors(module_, [this](OpBuilder& builder, mlir::Location location, Value value) {
        return call(builder, location, "inverse_f32", value.getType(), value);
      });
      for (Operation*& op : operations) {
        if (auto quotient = llvm::dyn_cast<arith::DivFOp>(op); quotient && divisors.replace(quotient)) op = nullptr;
      }
    }
    // What is rounded afterwards must still be seen to be: conversions come last.
    for (Operation*& op : operations) {
      if (op && expand_function(op)) op = nullptr;
    }
    if (options_.processor == Processor::Gpu) {
      for (Operation*& op : operations) {
        if (auto rounding = llvm::dyn_cast_or_null<arith::TruncFOp>(op); rounding && narrow_arithmetic(rounding)) {
          op = nullptr;
        }
      }
    }
    for (Operation* op : operations) {
      if (op) expand_conversion(op);
    }
  }

 private:
  bool expand_function(Operation* op) {
    OpBuilder builder(op);
    if (auto power = llvm::dyn_cast<mlir::math::PowFOp>(op); power && options_.processor == Processor::Gpu) {
      if (const std::optional<int32_t> quarters = quarters_of(power)) {
        const Value count = builder.create<arith::ConstantIntOp>(op->getLoc(), *quarters, 32);
        return replace(op, call(builder, op->getLoc(), "pow_quarters_f32", power.getType(), {power.getLhs(), count}));
      }
    }
    if (const char* name = lookup(kReal, op)) {
      const Type type = op->getResult(0).getType();
      const std::string function = real_function(name, op);
      return replace(op, call(builder, op->getLoc(), function, type, op->getOperands()));
    }
    // PTX's quotients and roots end in a branch and a call: the loads of a loop's next elements would wait for them.
    if (llvm::isa<arith::DivFOp, mlir::math::SqrtOp>(op) && options_.processor == Processor::Gpu) {
      const Type type = op->getResult(0).getType();
      if (!type.isF32()) return false;
      const std::string quotient = is_rounded_to_half(op->getResult(0)) ? "divide_f32_half" : "divide_f32";
      const std::string name = llvm::isa<arith::DivFOp>(op) ? quotient : "sqrt_f32";
      return replace(op, call(builder, op->getLoc(), name, type, op->getOperands()));
    }
    if (const char* name = lookup(kComplex, op)) {
      return replace(op, complex_call(builder, op, name + suffix(op->getResult(0).getType())));
    }
    if (auto abs = llvm::dyn_cast<complex::AbsOp>(op)) {
      const Type part = abs.getType();
      const llvm::SmallVector<Value> parts = parts_of(builder, op);
      return replace(op, call(builder, op->getLoc(), "abs" + suffix(mlir::ComplexType::get(part)), part, parts));
    }
    if (auto negated = llvm::dyn_cast<complex::NegOp>(op)) {
      const llvm::SmallVector<Value> parts = parts_of(builder, op);
      const Value re = builder.create<arith::NegFOp>(op->getLoc(), parts[0]);
      const Value im = builder.create<arith::NegFOp>(op->getLoc(), parts[1]);
      return replace(op, builder.create<complex::CreateOp>(op->getLoc(), negated.getType(), re, im));
    }
    if (llvm::isa<complex::EqualOp, complex::NotEqualOp>(op)) return replace(op, compare(builder, op));
    if (auto called = llvm::dyn_cast<mlir::func::CallOp>(op)) return expand_call(builder, op, called.getCallee());
    if (auto called = llvm::dyn_cast<PureCallOp>(op)) return expand_call(builder, op, called.getCallee());
    return false;
  }

  /// Four times the exponent of a power of f32, where that is a small integer: roots and products are a third of the
  /// work of the power, which needs f64.
  static std::optional<int32_t> quarters_of(mlir::math::PowFOp power) {
    constexpr float kMost = 12;
    auto constant = power.getRhs().getDefiningOp<arith::ConstantOp>();
    const auto value = constant ? llvm::dyn_cast<mlir::FloatAttr>(constant.getValue()) : mlir::FloatAttr();
    if (!value || !power.getType().isF32()) return std::nullopt;
    const float quarters = 4 * value.getValue().convertToFloat();
    if (!(std::fabs(quarters) <= kMost) || quarters == 0 || std::trunc(quarters) != quarters) return std::nullopt;
    return static_cast<int32_t>(quarters);
  }

  /// The library takes parts of complex numbers; callers write them as they are.
  bool expand_call(OpBuilder& builder, Operation* op, llvm::StringRef name) {
    if (!name.consume_front("strata_") || op->getNumResults() != 1) return false;
    const Type type = op->getResult(0).getType();
    if (llvm::isa<mlir::ComplexType>(type)) return replace(op, complex_call(builder, op, name.str()));
    if (!name.consume_back("_f32") || !llvm::is_contained(kHalf, name)) return false;
    if (!may_be_short(op)) return false;
    return replace(op, call(builder, op->getLoc(), name.str() + "_f32_half", type, op->getOperands()));
  }

  static std::string suffix(Type type) {
    if (const auto number = llvm::dyn_cast<mlir::ComplexType>(type)) {
      return number.getElementType().isF32() ? "_c64" : "_c128";
    }
    return type.isF32() ? "_f32" : "_f64";
  }

  static std::string real_function(llvm::StringRef name, Operation* op) {
    const Value result = op->getResult(0);
    const std::string full = name.str() + suffix(result.getType());
    if (!result.getType().isF32()) return full;
    if (llvm::is_contained(kBf16, name) && is_rounded_to_bf16(result)) return full + "_bf16";
    return full + (llvm::is_contained(kHalf, name) && may_be_short(op) ? "_half" : "");
  }

  void expand_conversion(Operation* op) {
    OpBuilder builder(op);
    const mlir::Location location = op->getLoc();
    const Type i16 = builder.getI16Type();
    const Type f32 = builder.getF32Type();
    if (auto narrowed = llvm::dyn_cast<arith::TruncFOp>(op); narrowed && is_half(narrowed.getType())) {
      const Type from = narrowed.getIn().getType();
      if (from.isF32() && options_.processor == Processor::Gpu) return;
      const std::string name = (from.isF32() ? "f32_to_" : "f64_to_") + std::string(half_name(narrowed.getType()));
      const Value bits = call(builder, location, name, i16, narrowed.getIn());
      replace(op, builder.create<mlir::LLVM::BitcastOp>(location, narrowed.getType(), bits));
    } else if (auto widened = llvm::dyn_cast<arith::ExtFOp>(op);
               widened && is_half(widened.getIn().getType()) && options_.processor == Processor::Cpu) {
      const Value bits = builder.create<mlir::LLVM::BitcastOp>(location, i16, widened.getIn());
      Value wide;
      if (widened.getIn().getType().isBF16()) {  // the upper half of an f32
        const Value word = builder.create<arith::ExtUIOp>(location, builder.getI32Type(), bits);
        const Value half = builder.create<arith::ConstantIntOp>(location, 16, 32);
        wide =
            builder.create<mlir::LLVM::BitcastOp>(location, f32, builder.create<arith::ShLIOp>(location, word, half));
      } else {
        wide = call(builder, location, "f16_to_f32", f32, bits);
      }
      if (widened.getType().isF64()) wide = builder.create<arith::ExtFOp>(location, widened.getType(), wide);
      replace(op, wide);
    }
  }

  static const char* half_name(Type type) { return type.isF16() ? "f16" : "bf16"; }

  static bool replace(Operation* op, Value value) {
    op->getResult(0).replaceAllUsesWith(value);
    op->erase();
    return true;
  }

  FuncOp declare(const std::string& name, mlir::FunctionType type) {
    auto known = module_.lookupSymbol<FuncOp>(name);
    if (known) {
      known.setFunctionType(type);  // it may have been declared with complex numbers
      return known;
    }
    OpBuilder builder = OpBuilder::atBlockBegin(module_.getBody());
    auto function = builder.create<FuncOp>(module_.getLoc(), name, type);
    function.setPrivate();
    return function;
  }

  Value call(OpBuilder& builder, mlir::Location location, const std::string& name, Type result,
             mlir::ValueRange operands) {
    const FuncOp function = declare("strata_" + name, builder.getFunctionType(operands.getTypes(), result));
    return builder.create<mlir::func::CallOp>(location, function, operands).getResult(0);
  }

  /// Real and imaginary part of each operand.
  static llvm::SmallVector<Value> parts_of(OpBuilder& builder, Operation* op) {
    llvm::SmallVector<Value> parts;
    for (const Value value : op->getOperands()) {
      const Type part = llvm::cast<mlir::ComplexType>(value.getType()).getElementType();
      parts.push_back(builder.create<complex::ReOp>(op->getLoc(), part, value));
      parts.push_back(builder.create<complex::ImOp>(op->getLoc(), part, value));
    }
    return parts;
  }

  /// Results come through pointers to the function's frame, one pair a type.
  Value complex_call(OpBuilder& builder, Operation* op, const std::string& name) {
    const auto type = llvm::cast<mlir::ComplexType>(op->getResult(0).getType());
    const Type part = type.getElementType();
    llvm::SmallVector<Value> operands = parts_of(builder, op);
    const auto [re, im] = frame(op, part);
    operands.append({re, im});
    const FuncOp function =
        declare("strata_" + name, builder.getFunctionType(mlir::ValueRange(operands).getTypes(), {}));
    builder.create<mlir::func::CallOp>(op->getLoc(), function, operands);
    return builder.create<complex::CreateOp>(op->getLoc(), type, builder.create<LLVM::LoadOp>(op->getLoc(), part, re),
                                             builder.create<LLVM::LoadOp>(op->getLoc(), part, im));
  }

  std::pair<Value, Value> frame(Operation* op, Type part) {
    auto function = op->getParentOfType<FuncOp>();
    auto& slots = frames_[{function, part}];
    if (!slots.first) {
      OpBuilder builder = OpBuilder::atBlockBegin(&function.getBody().front());
      const Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
      const Value one = builder.create<arith::ConstantIntOp>(op->getLoc(), 1, 32);
      slots = {builder.create<LLVM::AllocaOp>(op->getLoc(), pointer, part, one),
               builder.create<LLVM::AllocaOp>(op->getLoc(), pointer, part, one)};
    }
    return slots;
  }

  static Value compare(OpBuilder& builder, Operation* op) {
    const bool equal = llvm::isa<complex::EqualOp>(op);
    const auto predicate = equal ? arith::CmpFPredicate::OEQ : arith::CmpFPredicate::UNE;
    const llvm::SmallVector<Value> parts = parts_of(builder, op);
    const Value re = builder.create<arith::CmpFOp>(op->getLoc(), predicate, parts[0], parts[2]);
    const Value im = builder.create<arith::CmpFOp>(op->getLoc(), predicate, parts[1], parts[3]);
    if (equal) return builder.create<arith::AndIOp>(op->getLoc(), re, im);
    return builder.create<arith::OrIOp>(op->getLoc(), re, im);
  }

  mlir::ModuleOp module_;
  const LoweringOptions& options_;
  llvm::DenseMap<std::pair<Operation*, Type>, std::pair<Value, Value>> frames_;
};

}  // namespace

mlir::LogicalResult expand_floats(mlir::ModuleOp module, const LoweringOptions& options) {
  Expansion(module, options).run();
  return mlir::success();
}

}  // namespace strata::emitters
