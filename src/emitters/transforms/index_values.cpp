#include "emitters/transforms/index_values.h"

#include <llvm/ADT/TypeSwitch.h>
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/IR/Matchers.h>

#include "emitters/dialect/dialect.h"
#include "indexing/expr_range.h"
#include "indexing/simplify.h"

namespace strata::emitters {

using indexing::Expr;
using indexing::ExprKind;
using indexing::IndexingMap;
using indexing::Interval;
using indexing::kEverything;
using indexing::kGreatest;
using indexing::kLeast;
using mlir::Value;

std::optional<Interval> argument_range(mlir::func::FuncOp function, unsigned argument) {
  const auto pair = function.getArgAttrOfType<mlir::ArrayAttr>(argument, "strata.range");
  if (!pair || pair.size() != 2) return std::nullopt;
  const auto lo = llvm::dyn_cast<mlir::IntegerAttr>(pair[0]);
  const auto hi = llvm::dyn_cast<mlir::IntegerAttr>(pair[1]);
  if (!lo || !hi) return std::nullopt;
  return Interval{lo.getInt(), hi.getInt()};
}

namespace {

constexpr int kMaxDepth = 12;

Interval range_at(Value value, int depth);

Interval hull(const Interval& a, const Interval& b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

bool is_bounded(const Interval& range) { return range.lo != kLeast && range.hi != kGreatest; }

Interval argument_range_at(mlir::BlockArgument argument, int depth) {
  mlir::Operation* owner = argument.getOwner()->getParentOp();
  if (!owner) return kEverything;  // of a loop that is being built
  if (auto function = llvm::dyn_cast<mlir::func::FuncOp>(owner)) {
    return argument_range(function, argument.getArgNumber()).value_or(kEverything);
  }
  if (auto loop = llvm::dyn_cast<mlir::scf::ForOp>(owner); loop && argument.getArgNumber() == 0) {
    const Interval upper = range_at(loop.getUpperBound(), depth);
    return {range_at(loop.getLowerBound(), depth).lo, upper.hi == kGreatest ? kGreatest : upper.hi - 1};
  }
  if (auto loop = llvm::dyn_cast<LoopOp>(owner)) {
    const IndexingMap& map = loop.indexing_map();
    const size_t number = argument.getArgNumber();
    if (number < map.ranges.size()) return map.ranges[number];
    if (number < map.ranges.size() + map.results.size()) {
      return indexing::ExprRange(map)(map.results[number - map.ranges.size()]);
    }
  }
  return kEverything;
}

Interval operation_range(mlir::Operation* op, unsigned result, int depth) {
  namespace arith = mlir::arith;
  const auto operand = [&](unsigned i) { return range_at(op->getOperand(i), depth); };
  return llvm::TypeSwitch<mlir::Operation*, Interval>(op)
      .Case([&](ApplyIndexingOp apply) {
        const IndexingMap& map = apply.indexing_map();
        return indexing::ExprRange(map)(map.results[result]);
      })
      .Case<arith::IndexCastOp, arith::IndexCastUIOp>([&](mlir::Operation* cast) -> Interval {
        const auto type = llvm::dyn_cast<mlir::IntegerType>(cast->getOperand(0).getType());
        if (!type || type.getWidth() >= 64) return kEverything;
        const int64_t one = 1;
        if (llvm::isa<arith::IndexCastUIOp>(cast)) return {0, (one << type.getWidth()) - 1};
        return {-(one << (type.getWidth() - 1)), (one << (type.getWidth() - 1)) - 1};
      })
      .Case([&](arith::MinSIOp) -> Interval {
        const Interval a = operand(0), b = operand(1);
        return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
      })
      .Case([&](arith::MaxSIOp) -> Interval {
        const Interval a = operand(0), b = operand(1);
        return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
      })
      .Case([&](arith::MinUIOp) -> Interval {
        const Interval a = operand(0), b = operand(1);
        if (a.lo >= 0 && b.lo >= 0) return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
        if (b.lo >= 0) return {0, b.hi};  // a negative one counts as large
        return a.lo >= 0 ? Interval{0, a.hi} : kEverything;
      })
      .Case([&](arith::AddIOp) {
        const Interval a = operand(0), b = operand(1);
        return is_bounded(a) && is_bounded(b) ? a + b : kEverything;
      })
      .Case([&](arith::MulIOp) {
        const Interval a = operand(0), b = operand(1);
        const Interval product = is_bounded(a) && is_bounded(b) ? a * b : kEverything;
        return is_bounded(product) ? product : kEverything;
      })
      .Case([&](arith::SelectOp) { return hull(operand(1), operand(2)); })
      .Default(kEverything);
}

Interval range_at(Value value, int depth) {
  llvm::APInt constant;
  if (mlir::matchPattern(value, mlir::m_ConstantInt(&constant))) {
    return {constant.getSExtValue(), constant.getSExtValue()};
  }
  if (depth >= kMaxDepth) return kEverything;
  if (const auto argument = llvm::dyn_cast<mlir::BlockArgument>(value)) return argument_range_at(argument, depth + 1);
  return operation_range(value.getDefiningOp(), llvm::cast<mlir::OpResult>(value).getResultNumber(), depth + 1);
}

}  // namespace

Interval value_range(Value value) { return range_at(value, 0); }

int IndexExpr::add(Value value, const Interval& range) {
  const auto place = std::find(values.begin(), values.end(), value);
  const auto number = static_cast<size_t>(place - values.begin());
  if (place == values.end()) {
    values.push_back(value);
    ranges.push_back(intersect(range, value_range(value)));
  } else {
    ranges[number] = intersect(ranges[number], range);
  }
  return static_cast<int>(number);
}

IndexingMap IndexExpr::map() const {
  IndexingMap result;
  result.results = {expr};
  result.dims = ranges;
  return result;
}

void IndexExpr::simplify() {
  // An empty range says that this code never runs: then nothing needs to hold of it.
  for (size_t i = 0; i < values.size(); ++i) {
    if (ranges[i].empty()) ranges[i] = kEverything;
  }
  expr = indexing::substitute(expr, [&](ExprKind kind, int number) {
    const Interval& range = ranges[static_cast<size_t>(number)];
    return range.is_point() ? Expr::constant(range.lo) : Expr::variable(kind, number);
  });
  expr = indexing::simplify(expr, map());
  IndexExpr compact;
  std::vector<int> numbers(values.size(), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!expr.uses(ExprKind::Dimension, static_cast<int>(i))) continue;
    numbers[i] = static_cast<int>(compact.values.size());
    compact.values.push_back(values[i]);
    compact.ranges.push_back(ranges[i]);
  }
  compact.expr =
      indexing::substitute(expr, [&](ExprKind, int number) { return Expr::dim(numbers[static_cast<size_t>(number)]); });
  *this = std::move(compact);
}

IndexExpr expression_of(Value value) {
  IndexExpr result;
  llvm::APInt constant;
  if (mlir::matchPattern(value, mlir::m_ConstantInt(&constant))) {
    result.expr = Expr::constant(constant.getSExtValue());
    return result;
  }
  if (auto apply = value.getDefiningOp<ApplyIndexingOp>()) {
    const IndexingMap& map = apply.indexing_map();
    std::vector<int> numbers;
    for (size_t i = 0; i < map.dims.size(); ++i) {
      numbers.push_back(result.add(apply.getDims()[static_cast<unsigned>(i)], map.dims[i]));
    }
    result.expr =
        indexing::substitute(map.results[llvm::cast<mlir::OpResult>(value).getResultNumber()],
                             [&](ExprKind, int number) { return Expr::dim(numbers[static_cast<size_t>(number)]); });
    return result;
  }
  result.expr = Expr::dim(result.add(value, kEverything));
  return result;
}

Value materialize(mlir::OpBuilder& builder, mlir::Location location, IndexExpr expr) {
  expr.simplify();
  if (expr.expr.is_constant()) {
    return builder.create<mlir::arith::ConstantIndexOp>(location, expr.expr.value());
  }
  if (expr.expr.kind() == ExprKind::Dimension) return expr.values[static_cast<unsigned>(expr.expr.number())];
  return builder.create<ApplyIndexingOp>(location, expr.map(), expr.values).getResult(0);
}

Value apply_expr(mlir::OpBuilder& builder, mlir::Location location, const IndexingMap& map, const Expr& expr,
                 mlir::ValueRange dims, mlir::ValueRange ranges) {
  IndexExpr result;
  std::vector<int> dim_numbers, range_numbers;
  for (size_t i = 0; i < dims.size(); ++i) {
    dim_numbers.push_back(result.add(dims[static_cast<unsigned>(i)], map.dims[i]));
  }
  for (size_t i = 0; i < ranges.size(); ++i) {
    range_numbers.push_back(result.add(ranges[static_cast<unsigned>(i)], map.ranges[i]));
  }
  result.expr = indexing::substitute(expr, [&](ExprKind kind, int number) {
    return Expr::dim((kind == ExprKind::Dimension ? dim_numbers : range_numbers)[static_cast<size_t>(number)]);
  });
  return materialize(builder, location, std::move(result));
}

void forget_conditions(ApplyIndexingOp apply) {
  IndexingMap map = apply.indexing_map();
  for (size_t i = 0; i < map.dims.size(); ++i) map.dims[i] = value_range(apply.getDims()[static_cast<unsigned>(i)]);
  apply.setMapAttr(MapAttr::get(apply.getContext(), map));
}

int64_t count_operations(mlir::Region& region) {
  int64_t count = 0;
  region.walk([&](mlir::Operation*) { ++count; });
  return count;
}

}  // namespace strata::emitters
