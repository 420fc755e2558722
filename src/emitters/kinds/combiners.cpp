#include "emitters/kinds/combiners.h"

#include <mlir/Dialect/Arith/IR/Arith.h>

#include <limits>

#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/types.h"
#include "hlo/indexing/operand_maps.h"
#include "hlo/optional_combiner.h"

namespace strata::emitters {

using hlo::ElementType;
using hlo::InstructionId;
using hlo::Opcode;
using hlo::TypeKind;
using mlir::Value;
using mlir::ValueRange;

namespace {

/// Through conversions among floats.
InstructionId converted(const hlo::Computation& body, InstructionId id) {
  while (body[id].opcode == Opcode::Convert && hlo::is_float(body[id].shape.type) &&
         hlo::is_float(body.operand_shape(body[id], 0).type)) {
    id = body[id].operands[0];
  }
  return id;
}

std::optional<Combiner> combiner_of(Opcode opcode, ElementType type) {
  const TypeKind kind = hlo::kind(type);
  const bool pred = kind == TypeKind::Pred;
  switch (opcode) {
    case Opcode::Add:
      return pred ? Combiner::Or : Combiner::Add;
    case Opcode::Multiply:
      return pred ? Combiner::And : Combiner::Mul;
    case Opcode::Minimum:
      if (kind == TypeKind::Complex) return std::nullopt;
      return pred                       ? Combiner::And
             : kind == TypeKind::Float  ? Combiner::MinF
             : kind == TypeKind::Signed ? Combiner::MinS
                                        : Combiner::MinU;
    case Opcode::Maximum:
      if (kind == TypeKind::Complex) return std::nullopt;
      return pred                       ? Combiner::Or
             : kind == TypeKind::Float  ? Combiner::MaxF
             : kind == TypeKind::Signed ? Combiner::MaxS
                                        : Combiner::MaxU;
    case Opcode::And:
      return Combiner::And;
    case Opcode::Or:
      return Combiner::Or;
    case Opcode::Xor:
      return Combiner::Xor;
    default:
      return std::nullopt;
  }
}

Value select(mlir::ImplicitLocOpBuilder& builder, Value condition, Value a, Value b) {
  return builder.create<mlir::arith::SelectOp>(condition, a, b);
}

}  // namespace

std::optional<Combiner> named_combiner(const hlo::Module& module, hlo::ComputationId called) {
  const hlo::Computation& body = module[called];
  if (body.parameters.size() != 2) return std::nullopt;
  const hlo::Instruction& last = body[converted(body, body.root)];
  if (last.operands.size() != 2 || !last.shape.is_array() || last.shape.rank() != 0) return std::nullopt;
  const InstructionId a = converted(body, last.operands[0]);
  const InstructionId b = converted(body, last.operands[1]);
  const bool both =
      (a == body.parameters[0] && b == body.parameters[1]) || (a == body.parameters[1] && b == body.parameters[0]);
  if (!both || body[a].shape.type != body[b].shape.type) return std::nullopt;
  return combiner_of(last.opcode, last.shape.type);
}

std::optional<Value> neutral_value(mlir::ImplicitLocOpBuilder& builder, Combiner combiner, ElementType element) {
  const ElementType wide = wide_type(element);
  const mlir::Type type = element_type(builder.getContext(), wide);
  if (auto floats = llvm::dyn_cast<mlir::FloatType>(type)) {
    const auto constant = [&](const llvm::APFloat& value) -> Value {
      return builder.create<mlir::arith::ConstantOp>(mlir::FloatAttr::get(type, value));
    };
    const llvm::fltSemantics& semantics = floats.getFloatSemantics();
    switch (combiner) {
      case Combiner::Add:  // a sum of nothing but negative zeros is one
        return constant(llvm::APFloat::getZero(semantics, /*Negative=*/true));
      case Combiner::Mul:
        return constant(llvm::APFloat::getOne(semantics));
      case Combiner::MinF:
        return constant(llvm::APFloat::getInf(semantics));
      case Combiner::MaxF:
        return constant(llvm::APFloat::getInf(semantics, /*Negative=*/true));
      default:
        return std::nullopt;
    }
  }
  const auto integers = llvm::dyn_cast<mlir::IntegerType>(type);
  if (!integers) return std::nullopt;
  const unsigned bits = integers.getWidth();
  const auto constant = [&](const llvm::APInt& value) -> Value {
    return builder.create<mlir::arith::ConstantOp>(mlir::IntegerAttr::get(type, value));
  };
  switch (combiner) {
    case Combiner::Add:
    case Combiner::Or:
    case Combiner::Xor:
    case Combiner::MaxU:
      return constant(llvm::APInt::getZero(bits));
    case Combiner::Mul:
      return constant(llvm::APInt(bits, 1));
    case Combiner::And:
    case Combiner::MinU:
      return constant(llvm::APInt::getAllOnes(bits));
    case Combiner::MinS:
      return constant(llvm::APInt::getSignedMaxValue(bits));
    case Combiner::MaxS:
      return constant(llvm::APInt::getSignedMinValue(bits));
    default:
      return std::nullopt;
  }
}

Result<Accumulation> Accumulation::create(FusionFunctions& functions, InstructionId reduce) {
  const hlo::Instruction& it = functions.computation()[reduce];
  Accumulation result;
  const size_t count = it.operands.size() / 2;
  for (size_t i = 0; i < count; ++i) {
    result.types_.push_back(indexing::element_shape(it.shape, static_cast<int>(i)).type);
  }
  STRATA_TRY(result.scalar_combiner_, functions.scalar_function(it.called[0], /*wide=*/true));
  const std::optional<Combiner> named = named_combiner(functions.hlo_module(), it.called[0]);
  const bool complex = hlo::is_complex(result.types_[0]);
  // Zeros say that nothing is there.
  result.optional_ = hlo::is_optional_combiner(functions.hlo_module()[it.called[0]]);
  result.flagged_ = !result.optional_ && (count != 1 || !named || complex);
  if (result.flagged_) {
    result.make_flagged_combiner(functions.target());
  } else if (!result.optional_) {
    result.name_ = *named;
  }
  return result;
}

void Accumulation::make_flagged_combiner(mlir::ModuleOp target) {
  const std::string name = scalar_combiner_.getName().str() + "_if_any";
  if (auto known = target.lookupSymbol<mlir::func::FuncOp>(name)) {
    flagged_combiner_ = known;
    return;
  }
  mlir::ImplicitLocOpBuilder builder(scalar_combiner_.getLoc(), target.getContext());
  builder.setInsertionPointAfter(scalar_combiner_);
  llvm::SmallVector<mlir::Type> state{builder.getI1Type()};
  llvm::append_range(state, scalar_combiner_.getResultTypes());
  llvm::SmallVector<mlir::Type> inputs(state);
  llvm::append_range(inputs, state);
  flagged_combiner_ = builder.create<mlir::func::FuncOp>(name, builder.getFunctionType(inputs, state));
  flagged_combiner_.setPrivate();
  builder.setInsertionPointToStart(flagged_combiner_.addEntryBlock());
  const ValueRange arguments = flagged_combiner_.getArguments();
  const size_t count = types_.size();
  const ValueRange a = arguments.slice(1, count), b = arguments.drop_front(count + 2);
  const Value has_a = arguments[0], has_b = arguments[count + 1];
  Values both(a);
  llvm::append_range(both, b);
  auto call = builder.create<PureCallOp>(scalar_combiner_.getResultTypes(), scalar_combiner_.getName(), both);
  Values results{builder.create<mlir::arith::OrIOp>(has_a, has_b)};
  for (unsigned i = 0; i < count; ++i) {
    const Value of_both = select(builder, has_b, call.getResult(i), a[i]);
    results.push_back(select(builder, has_a, of_both, b[i]));
  }
  builder.create<mlir::func::ReturnOp>(results);
}

Values Accumulation::empty(mlir::ImplicitLocOpBuilder& builder) const {
  if (!flagged_ && !optional_) return {*neutral_value(builder, name_, types_[0])};
  Values state;
  if (flagged_) state.push_back(builder.create<mlir::arith::ConstantIntOp>(0, 1));
  for (const mlir::Type type : mlir::func::FuncOp(scalar_combiner_).getResultTypes()) {
    const auto complex = llvm::dyn_cast<mlir::ComplexType>(type);
    const mlir::Attribute zero = builder.getZeroAttr(complex ? complex.getElementType() : type);
    if (complex) {
      state.push_back(emit_zero(builder, types_[state.size() - (flagged_ ? 1 : 0)]));
    } else {
      state.push_back(builder.create<mlir::arith::ConstantOp>(llvm::cast<mlir::TypedAttr>(zero)));
    }
  }
  return state;
}

Values Accumulation::combine(mlir::ImplicitLocOpBuilder& builder, ValueRange a, ValueRange b) const {
  Values both(a);
  llvm::append_range(both, b);
  mlir::func::FuncOp function = combiner();
  return Values(builder.create<PureCallOp>(function.getResultTypes(), function.getName(), both).getResults());
}

Values Accumulation::add(mlir::ImplicitLocOpBuilder& builder, ValueRange state, ValueRange elements) const {
  Values wide;
  for (size_t i = 0; i < types_.size(); ++i) wide.push_back(widened(builder, elements[i], types_[i]));
  return add_wide(builder, state, wide);
}

Values Accumulation::add_wide(mlir::ImplicitLocOpBuilder& builder, ValueRange state, ValueRange elements) const {
  Values one;
  if (flagged_) one.push_back(builder.create<mlir::arith::ConstantIntOp>(1, 1));
  llvm::append_range(one, elements);
  return combine(builder, state, one);
}

Values Accumulation::result(mlir::ImplicitLocOpBuilder& builder, ValueRange initial, ValueRange state) const {
  Values start;
  if (flagged_) start.push_back(builder.create<mlir::arith::ConstantIntOp>(1, 1));
  for (size_t i = 0; i < types_.size(); ++i) start.push_back(widened(builder, initial[i], types_[i]));
  const Values total = combine(builder, start, state);
  Values results;
  for (size_t i = 0; i < types_.size(); ++i) {
    results.push_back(narrowed(builder, total[i + (flagged_ ? 1 : 0)], types_[i]));
  }
  return results;
}

}  // namespace strata::emitters
