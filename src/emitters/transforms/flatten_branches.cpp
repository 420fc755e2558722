// Branches of elements (padding, pieces of a concatenation) become selects, where computing both sides takes less than
// waiting: after a branch, what a side loads is waited for before the next element's loads begin.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Complex/IR/Complex.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include <limits>
#include <optional>

#include "emitters/dialect/dialect.h"
#include "emitters/transforms/index_values.h"
#include "emitters/transforms/memory.h"
#include "emitters/transforms/passes.h"
#include "machine/rates.h"

namespace strata::emitters {
namespace {

namespace scf = mlir::scf;
using indexing::Interval;
using mlir::Operation;
using mlir::Value;

constexpr Interval kInt32{std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};

/// What a side of a branch does for an element.
struct SideWork {
  double operations = 0;
  bool loads = false;
};

/// As many operations as a machine of the usual rates does in that time.
double operations_in(double seconds) { return seconds * Rates().scalar_rate / 2; }

/// What an operation takes, or nothing where it may not run for elements of the other side: it has effects or no value
/// there.
std::optional<SideWork> work_of(Operation& op) {
  constexpr double kFunction = 12;
  if (auto load = llvm::dyn_cast<mlir::tensor::ExtractOp>(op)) {
    const auto type = load.getTensor().getType();
    if (type.getRank() != 1 || !type.hasStaticShape() || type.getDimSize(0) == 0) return std::nullopt;
    const auto bytes = static_cast<double>(stored_bytes(type.getElementType()));
    return SideWork{operations_in(bytes / Rates().cached_loads), true};
  }
  if (llvm::isa<ApplyIndexingOp>(op)) return SideWork{2.0 * op.getNumResults(), false};
  if (auto call = llvm::dyn_cast<PureCallOp>(op)) {
    // Functions of the math library, which are only declared, read nothing.
    auto callee = mlir::SymbolTable::lookupNearestSymbolFrom<mlir::func::FuncOp>(call, call.getCalleeAttr());
    return callee && callee.isDeclaration() ? std::optional(SideWork{kFunction, false}) : std::nullopt;
  }
  const mlir::Dialect* dialect = op.getDialect();
  if (!llvm::isa<mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::complex::ComplexDialect>(dialect) ||
      !mlir::isPure(&op))
    return std::nullopt;
  if (op.hasTrait<mlir::OpTrait::ConstantLike>()) return SideWork{};
  const bool is_long = llvm::isa<mlir::arith::DivFOp>(op) || !llvm::isa<mlir::arith::ArithDialect>(dialect);
  return SideWork{is_long ? kFunction : 1, false};
}

std::optional<SideWork> work_of(mlir::Region& region) {
  SideWork sum;
  for (Operation& op : region.front().without_terminator()) {
    const std::optional<SideWork> one = work_of(op);
    if (!one) return std::nullopt;
    sum.operations += one->operations;
    sum.loads |= one->loads;
  }
  return sum;
}

/// Whether all elements should compute both sides: what each computes for nothing takes no longer than a load that is
/// waited for.
bool should_flatten(scf::IfOp branch) {
  const auto share = branch->getAttrOfType<mlir::FloatAttr>("strata.share");
  if (!share || branch.getNumResults() == 0 || branch.getElseRegion().empty()) return false;
  const std::optional<SideWork> then = work_of(branch.getThenRegion());
  const std::optional<SideWork> otherwise = work_of(branch.getElseRegion());
  if (!then || !otherwise || (!then->loads && !otherwise->loads)) return false;
  const double taken = share.getValueAsDouble();
  const double more = (1 - taken) * then->operations + taken * otherwise->operations + branch.getNumResults();
  return more <= Rates().chained_load / Rates().dependent_operation;
}

/// A position within the array, the given one where that is: of the other side's elements any will do.
Value limited(mlir::OpBuilder& builder, mlir::Location location, Value position, int64_t elements) {
  namespace arith = mlir::arith;
  const Interval inside = indexing::below(elements);
  const Interval range = value_range(position);
  if (inside.contains(range)) return position;
  // A negative one counts as large.
  if (kInt32.contains(range) && kInt32.contains(inside)) {
    const Value integer = builder.create<arith::IndexCastOp>(location, builder.getI32Type(), position);
    const Value last = builder.create<arith::ConstantIntOp>(location, inside.hi, 32);
    const Value least = builder.create<arith::MinUIOp>(location, integer, last);
    return builder.create<arith::IndexCastUIOp>(location, builder.getIndexType(), least);
  }
  const Value last = builder.create<arith::ConstantIndexOp>(location, inside.hi);
  return builder.create<arith::MinUIOp>(location, position, last);
}

/// Puts a side's operations in front of the branch. What they know of indices held within it only.
void lift(mlir::Region& region, scf::IfOp branch) {
  for (Operation& op : llvm::make_early_inc_range(region.front().without_terminator())) {
    op.moveBefore(branch);
    mlir::OpBuilder builder(&op);
    if (auto apply = llvm::dyn_cast<ApplyIndexingOp>(op)) {
      forget_conditions(apply);
    } else if (auto load = llvm::dyn_cast<mlir::tensor::ExtractOp>(op)) {
      mlir::OpOperand& position = load.getIndicesMutable()[0];
      position.set(limited(builder, op.getLoc(), position.get(), load.getTensor().getType().getDimSize(0)));
    }
  }
}

void flatten(scf::IfOp branch) {
  lift(branch.getThenRegion(), branch);
  lift(branch.getElseRegion(), branch);
  mlir::OpBuilder builder(branch);
  for (mlir::OpResult result : branch.getResults()) {
    const unsigned number = result.getResultNumber();
    result.replaceAllUsesWith(builder.create<mlir::arith::SelectOp>(branch.getLoc(), branch.getCondition(),
                                                                    branch.thenYield().getOperand(number),
                                                                    branch.elseYield().getOperand(number)));
  }
  branch.erase();
}

}  // namespace

mlir::LogicalResult flatten_branches(mlir::ModuleOp module, const LoweringOptions&) {
  llvm::SmallVector<scf::IfOp> branches;  // inner ones first
  module.walk([&](scf::IfOp branch) { branches.push_back(branch); });
  for (scf::IfOp branch : branches) {
    if (should_flatten(branch)) flatten(branch);
  }
  return mlir::success();
}

}  // namespace strata::emitters
