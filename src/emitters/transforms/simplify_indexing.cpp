// Chains of apply_indexing become one map each, over values that are no results of maps; each operation keeps one
// result and only the dimensions that it needs, so that equal ones are found by comparison.
#include <mlir/Dialect/Arith/IR/Arith.h>

#include "emitters/dialect/dialect.h"
#include "emitters/transforms/index_values.h"
#include "emitters/transforms/passes.h"

namespace strata::emitters {
namespace {

using indexing::Expr;
using indexing::ExprKind;
using mlir::Value;

/// An expression that costs more than this stays in pieces.
constexpr int64_t kMaxCost = 300;

/// The expression with what its values are results of put in their place, where that costs nothing.
IndexExpr fold_operands(const IndexExpr& outer) {
  IndexExpr folded;
  std::vector<Expr> replacements;
  for (size_t i = 0; i < outer.values.size(); ++i) {
    const Value value = outer.values[i];
    const IndexExpr inner = expression_of(value);
    const bool is_itself = inner.values.size() == 1 && inner.values[0] == value;
    if (is_itself || inner.expr.cost() > kMaxCost) {
      replacements.push_back(Expr::dim(folded.add(value, outer.ranges[i])));
      continue;
    }
    std::vector<int> numbers;
    for (size_t k = 0; k < inner.values.size(); ++k) numbers.push_back(folded.add(inner.values[k], inner.ranges[k]));
    replacements.push_back(indexing::substitute(
        inner.expr, [&](ExprKind, int number) { return Expr::dim(numbers[static_cast<size_t>(number)]); }));
  }
  folded.expr =
      indexing::substitute(outer.expr, [&](ExprKind, int number) { return replacements[static_cast<size_t>(number)]; });
  folded.simplify();
  return folded;
}

/// What computing the expression costs beyond its operands, of which those that have other users stay in any case.
int64_t cost_of_chain(const IndexExpr& outer) {
  int64_t cost = outer.expr.cost();
  for (const Value value : outer.values) {
    if (auto apply = value.getDefiningOp<ApplyIndexingOp>()) {
      cost += apply.indexing_map().results[llvm::cast<mlir::OpResult>(value).getResultNumber()].cost();
    }
  }
  return cost;
}

bool has_single_uses(const IndexExpr& outer) {
  return llvm::all_of(outer.values,
                      [](Value value) { return !value.getDefiningOp<ApplyIndexingOp>() || value.hasOneUse(); });
}

}  // namespace

mlir::LogicalResult simplify_indexing(mlir::ModuleOp module, const LoweringOptions&) {
  llvm::SmallVector<ApplyIndexingOp> operations;  // in order: operands have been simplified before their users
  module.walk<mlir::WalkOrder::PreOrder>([&](ApplyIndexingOp op) { operations.push_back(op); });
  for (ApplyIndexingOp op : operations) {
    mlir::OpBuilder builder(op);
    for (mlir::OpResult result : op->getResults()) {
      if (result.use_empty()) continue;
      IndexExpr outer = expression_of(result);
      outer.simplify();
      IndexExpr folded = fold_operands(outer);
      const bool better = folded.expr.cost() <= kMaxCost && !folded.expr.is_undefined() &&
                          (has_single_uses(outer) || folded.expr.cost() <= cost_of_chain(outer));
      result.replaceAllUsesWith(materialize(builder, op.getLoc(), better ? folded : outer));
    }
    op.erase();
  }
  return mlir::success();
}

}  // namespace strata::emitters
