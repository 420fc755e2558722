// Loops that give the same in every iteration of a loop around them go in front of it: a sum of a row that is a factor
// of each term of another one is computed once. LLVM moves single operations only.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Complex/IR/Complex.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/Dialect/Utils/StaticValueUtils.h>

#include "emitters/dialect/dialect.h"
#include "emitters/transforms/passes.h"

namespace strata::emitters {
namespace {

namespace scf = mlir::scf;
using mlir::Operation;
using mlir::Value;

/// Whether an operation, with all inside, only computes numbers of what it reads. Writes and atomic updates have no
/// effects by their types alone, and threads meet at barriers and shuffles where they stand.
bool only_computes(Operation* op) {
  const bool computes =
      llvm::isa<scf::ForOp, scf::IfOp, scf::YieldOp, mlir::tensor::ExtractOp, ApplyIndexingOp, PureCallOp>(op) ||
      llvm::isa<mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::complex::ComplexDialect>(op->getDialect());
  if (!computes || llvm::any_of(op->getResultTypes(), llvm::IsaPred<mlir::TensorType>)) return false;
  for (mlir::Region& region : op->getRegions()) {
    for (Operation& inner : region.getOps()) {
      if (!only_computes(&inner)) return false;
    }
  }
  return true;
}

/// Of what an operation uses, with all inside, the values of `block` itself.
template <class Visit>
void each_use_of(mlir::Block& block, Operation* op, const Visit& visit) {
  op->walk([&](Operation* inner) {
    for (Value value : inner->getOperands()) {
      if (value.getParentBlock() == &block) visit(value);
    }
  });
}

/// Whether the body runs at all: what it reads may be there only then.
bool has_iterations(scf::ForOp loop) {
  const auto lower = mlir::getConstantIntValue(loop.getLowerBound());
  const auto upper = mlir::getConstantIntValue(loop.getUpperBound());
  return lower && upper && *lower < *upper;
}

void hoist_from(scf::ForOp loop) {
  mlir::Block& body = *loop.getBody();
  llvm::SmallPtrSet<Operation*, 32> same;    // in every iteration
  llvm::SmallPtrSet<Operation*, 32> wanted;  // in front of the loop
  for (Operation& op : body.without_terminator()) {
    bool is_same = only_computes(&op);
    each_use_of(body, &op, [&](Value value) {
      Operation* from = value.getDefiningOp();
      is_same = is_same && from != nullptr && same.contains(from);
    });
    if (is_same) same.insert(&op);
    if (is_same && llvm::isa<scf::ForOp, PureCallOp>(op)) wanted.insert(&op);
  }
  if (wanted.empty()) return;
  for (Operation& op : llvm::reverse(body)) {
    if (wanted.contains(&op)) each_use_of(body, &op, [&](Value value) { wanted.insert(value.getDefiningOp()); });
  }
  for (Operation& op : llvm::make_early_inc_range(body)) {
    if (wanted.contains(&op)) op.moveBefore(loop);
  }
}

}  // namespace

mlir::LogicalResult hoist_loops(mlir::ModuleOp module, const LoweringOptions&) {
  module.walk([](scf::ForOp loop) {  // inner ones first: what leaves one may leave the next
    if (has_iterations(loop)) hoist_from(loop);
  });
  return mlir::success();
}

}  // namespace strata::emitters
