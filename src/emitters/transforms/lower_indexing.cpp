// apply_indexing → arithmetic on integers of 32 bits where narrowest_index_type allows it, else of 64. Arguments and
// variables of loops whose ranges are known to fit become i32 too; what is still of type index then has 64 bits.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/SCF/IR/SCF.h>

#include "emitters/dialect/dialect.h"
#include "emitters/transforms/index_values.h"
#include "emitters/transforms/passes.h"
#include "indexing/expr_range.h"
#include "indexing/index_type.h"

namespace strata::emitters {
namespace {

namespace arith = mlir::arith;
using indexing::Expr;
using indexing::ExprKind;
using indexing::Interval;
using mlir::Type;
using mlir::Value;

constexpr Interval kInt32{std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};

/// An index as an integer, and back. What was an integer before is taken as it was.
Value to_integer(mlir::OpBuilder& builder, mlir::Location location, Value index, Type type) {
  mlir::Operation* op = index.getDefiningOp();
  if (op && llvm::isa<arith::IndexCastOp, arith::IndexCastUIOp>(op) && op->getOperand(0).getType() == type) {
    return op->getOperand(0);
  }
  return builder.createOrFold<arith::IndexCastOp>(location, type, index);
}

Value to_index(mlir::OpBuilder& builder, mlir::Location location, Value integer, const Interval& range) {
  const Type index = builder.getIndexType();
  if (range.lo >= 0) return builder.create<arith::IndexCastUIOp>(location, index, integer);
  return builder.create<arith::IndexCastOp>(location, index, integer);
}

/// Code for the expressions of one map.
class ExprCode {
 public:
  ExprCode(mlir::OpBuilder& builder, mlir::Location location, const indexing::IndexingMap& map, Type type,
           llvm::SmallVector<Value> dims)
      : builder_(builder), location_(location), type_(type), dims_(std::move(dims)), range_(map) {}

  Value value(const Expr& expr) {
    const auto known = known_.find(expr);
    if (known != known_.end()) return known->second;
    return known_[expr] = compute(expr);
  }

 private:
  Value compute(const Expr& expr) {
    switch (expr.kind()) {
      case ExprKind::Constant:
        return constant(expr.value());
      case ExprKind::Dimension:
        return dims_[static_cast<size_t>(expr.number())];
      case ExprKind::Sum:
        return sum(expr);
      case ExprKind::Product: {
        Value product = value(expr.factors()[0]);
        for (const Expr& factor : std::span(expr.factors()).subspan(1))
          product = multiply(product, value(factor), false);
        return product;
      }
      case ExprKind::FloorDiv:
        return quotient(expr, true);
      case ExprKind::Mod:
        return quotient(expr, false);
      default:
        break;
    }
    assert(false && "no variable of a map of dimensions");
    return {};
  }

  Value constant(int64_t value) { return builder_.create<arith::ConstantIntOp>(location_, value, type_); }

  /// Nothing overflows, in any order: narrowest_index_type has seen to that.
  arith::IntegerOverflowFlagsAttr flags(bool positive) {
    using Flags = arith::IntegerOverflowFlags;
    return arith::IntegerOverflowFlagsAttr::get(builder_.getContext(), positive ? Flags::nsw | Flags::nuw : Flags::nsw);
  }
  Value multiply(Value a, Value b, bool positive) {
    return builder_.create<arith::MulIOp>(location_, a, b, flags(positive));
  }

  Value sum(const Expr& expr) {
    bool positive = expr.offset() >= 0;
    for (const indexing::Term& term : expr.terms()) {
      positive = positive && term.coefficient > 0 && range_(term.atom).lo >= 0;
    }
    Value total;
    for (const indexing::Term& term : expr.terms()) {
      const Value atom = value(term.atom);
      if (term.coefficient == -1 && total) {
        total = builder_.create<arith::SubIOp>(location_, total, atom, flags(false));
        continue;
      }
      const Value scaled = term.coefficient == 1 ? atom : multiply(atom, constant(term.coefficient), positive);
      total = total ? builder_.create<arith::AddIOp>(location_, total, scaled, flags(positive)).getResult() : scaled;
    }
    if (expr.offset() == 0) return total;
    return builder_.create<arith::AddIOp>(location_, total, constant(expr.offset()), flags(positive));
  }

  /// Rounded down, and what is left, which has the divisor's sign.
  Value quotient(const Expr& expr, bool floor) {
    const Value a = value(expr.lhs());
    const Value b = value(expr.rhs());
    const Interval divisor = range_(expr.rhs());
    if (range_(expr.lhs()).lo >= 0 && divisor.lo > 0) {
      const bool is_power = (divisor.lo & (divisor.lo - 1)) == 0;
      if (divisor.is_point() && !is_power && range_(expr.lhs()).hi / 2 < divisor.lo) {  // the quotient is 0 or 1
        if (floor) {
          const Value reached = builder_.create<arith::CmpIOp>(location_, arith::CmpIPredicate::uge, a, b);
          return builder_.create<arith::ExtUIOp>(location_, type_, reached);
        }
        // What is less than the divisor becomes a large number.
        return builder_.create<arith::MinUIOp>(location_, a, builder_.create<arith::SubIOp>(location_, a, b));
      }
      if (floor) return builder_.create<arith::DivUIOp>(location_, a, b);
      return builder_.create<arith::RemUIOp>(location_, a, b);
    }
    if (expr.rhs().is_constant() && (divisor.lo & (divisor.lo - 1)) == 0) {  // divisors are positive
      if (floor)
        return builder_.create<arith::ShRSIOp>(location_, a,
                                               constant(std::countr_zero(static_cast<uint64_t>(divisor.lo))));
      return builder_.create<arith::AndIOp>(location_, a, constant(divisor.lo - 1));
    }
    using Predicate = arith::CmpIPredicate;
    const Value zero = constant(0);
    const Interval dividend = range_(expr.lhs());
    if (divisor.is_point() && dividend.lo >= -divisor.lo && dividend.hi < divisor.lo) {  // the quotient is -1 or 0
      const Value negative = builder_.create<arith::CmpIOp>(location_, Predicate::slt, a, zero);
      if (floor) return builder_.create<arith::ExtSIOp>(location_, type_, negative);
      const Value moved = builder_.create<arith::AddIOp>(location_, a, b);
      return builder_.create<arith::SelectOp>(location_, negative, moved, a);
    }
    const Value rest = builder_.create<arith::RemSIOp>(location_, a, b);
    Value wrong = builder_.create<arith::CmpIOp>(location_, Predicate::slt, rest, zero);
    if (divisor.lo <= 0) {  // the remainder's sign differs from the divisor's
      const Value negative = builder_.create<arith::CmpIOp>(location_, Predicate::slt, b, zero);
      const Value some = builder_.create<arith::CmpIOp>(location_, Predicate::ne, rest, zero);
      wrong = builder_.create<arith::XOrIOp>(location_, wrong, negative);
      wrong = builder_.create<arith::AndIOp>(location_, wrong, some);
    }
    if (!floor) {
      const Value moved = builder_.create<arith::AddIOp>(location_, rest, b);
      return builder_.create<arith::SelectOp>(location_, wrong, moved, rest);
    }
    const Value whole = builder_.create<arith::DivSIOp>(location_, a, b);
    return builder_.create<arith::AddIOp>(location_, whole, builder_.create<arith::ExtSIOp>(location_, type_, wrong));
  }

  mlir::OpBuilder& builder_;
  mlir::Location location_;
  Type type_;
  llvm::SmallVector<Value> dims_;
  indexing::ExprRange range_;
  std::unordered_map<Expr, Value, indexing::ExprHash> known_;
};

void lower_arguments(mlir::func::FuncOp function) {
  if (function.isExternal()) return;
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockBegin(&function.getBody().front());
  const bool kernel = function->hasAttr("strata.kernel");
  llvm::SmallVector<Type> types(function.getArgumentTypes());
  for (mlir::BlockArgument argument : function.getArguments()) {
    if (!argument.getType().isIndex()) continue;
    const unsigned number = argument.getArgNumber();
    const Interval range = argument_range(function, number).value_or(indexing::kEverything);
    types[number] = builder.getIntegerType(kernel || kInt32.contains(range) ? 32 : 64);
    argument.setType(types[number]);
    const Value index = to_index(builder, function.getLoc(), argument, range);
    argument.replaceAllUsesExcept(index, index.getDefiningOp());
  }
  function.setFunctionType(builder.getFunctionType(types, function.getResultTypes()));
}

/// Operands of calls of functions whose arguments have become integers.
void lower_operands(mlir::Operation* call, mlir::func::FuncOp callee) {
  mlir::OpBuilder builder(call);
  for (const auto& [operand, type] : llvm::zip_equal(call->getOpOperands(), callee.getArgumentTypes())) {
    if (operand.get().getType() == type) continue;
    operand.set(to_integer(builder, call->getLoc(), operand.get(), type));
  }
}

/// A loop between constants counts in 32 bits.
void lower_loop(mlir::scf::ForOp loop) {
  if (!loop.getInductionVar().getType().isIndex()) return;
  const Interval lower = value_range(loop.getLowerBound());
  const Interval upper = value_range(loop.getUpperBound());
  const Interval step = value_range(loop.getStep());
  if (!lower.is_point() || !upper.is_point() || !step.is_point()) return;
  // The variable goes one step beyond the last.
  if (!kInt32.contains(lower) || step.lo > kInt32.hi || upper.lo > kInt32.hi - step.lo) return;
  mlir::OpBuilder builder(loop);
  const auto constant = [&](int64_t value) -> Value {
    return builder.create<arith::ConstantIntOp>(loop.getLoc(), value, 32);
  };
  loop.setLowerBound(constant(lower.lo));
  loop.setUpperBound(constant(upper.lo));
  loop.setStep(constant(step.lo));
  Value variable = loop.getInductionVar();
  variable.setType(builder.getI32Type());
  builder.setInsertionPointToStart(loop.getBody());
  const Value index = to_index(builder, loop.getLoc(), variable, lower);
  variable.replaceAllUsesExcept(index, index.getDefiningOp());
}

/// No array has so many elements: to guards of indices that are only known when the program runs, what lies beyond is
/// as far outside as this.
constexpr Interval kPossible{-(int64_t{1} << 40), int64_t{1} << 40};

mlir::LogicalResult lower_map(ApplyIndexingOp op) {
  indexing::IndexingMap map = op.indexing_map();
  mlir::OpBuilder builder(op);
  auto width = indexing::narrowest_index_type(map);
  if (!width) {
    for (size_t i = 0; i < map.dims.size(); ++i) {
      if (kPossible.contains(map.dims[i])) continue;
      map.dims[i] = intersect(map.dims[i], kPossible);
      mlir::OpOperand& dim = op->getOpOperand(static_cast<unsigned>(i));
      const auto bound = [&](int64_t value) -> Value {
        return builder.create<arith::ConstantIndexOp>(op.getLoc(), value);
      };
      const Value low = builder.create<arith::MaxSIOp>(op.getLoc(), dim.get(), bound(kPossible.lo));
      dim.set(builder.create<arith::MinSIOp>(op.getLoc(), low, bound(kPossible.hi)));
    }
    width = indexing::narrowest_index_type(map);
  }
  if (!width) return op.emitError("unsupported: has a map that no integers of 64 bits can compute");
  const Type type = builder.getIntegerType(*width == indexing::IndexType::I32 ? 32 : 64);
  llvm::SmallVector<Value> dims;
  for (const Value dim : op.getDims()) dims.push_back(to_integer(builder, op.getLoc(), dim, type));
  ExprCode code(builder, op.getLoc(), map, type, std::move(dims));
  indexing::ExprRange ranges(map);
  llvm::SmallVector<Value> results;
  for (const Expr& expr : map.results) {
    results.push_back(to_index(builder, op.getLoc(), code.value(expr), ranges(expr)));
  }
  op.replaceAllUsesWith(results);
  op.erase();
  return mlir::success();
}

}  // namespace

mlir::LogicalResult lower_indexing(mlir::ModuleOp module, const LoweringOptions&) {
  const mlir::SymbolTable symbols(module);
  for (auto function : module.getOps<mlir::func::FuncOp>()) lower_arguments(function);
  llvm::SmallVector<mlir::Operation*> operations;
  module.walk<mlir::WalkOrder::PreOrder>([&](mlir::Operation* op) { operations.push_back(op); });
  for (mlir::Operation* op : operations) {
    if (auto loop = llvm::dyn_cast<mlir::scf::ForOp>(op)) {
      lower_loop(loop);
    } else if (auto apply = llvm::dyn_cast<ApplyIndexingOp>(op)) {
      if (mlir::failed(lower_map(apply))) return mlir::failure();
    } else if (auto call = llvm::dyn_cast<mlir::CallOpInterface>(op)) {
      const auto symbol = llvm::dyn_cast<mlir::SymbolRefAttr>(call.getCallableForCallee());
      auto callee = symbol ? symbols.lookup<mlir::func::FuncOp>(symbol.getRootReference()) : mlir::func::FuncOp();
      if (callee) lower_operands(op, callee);
    }
  }
  return mlir::success();
}

}  // namespace strata::emitters
