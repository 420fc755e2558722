// What is known of values of type index, and maps applied to them.
#pragma once

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/Builders.h>

#include "indexing/indexing_map.h"

namespace strata::emitters {

class ApplyIndexingOp;

/// An interval that contains every value the index takes: from `strata.range` on arguments of functions, bounds of
/// loops, maps, clamps and the arithmetic between them. kEverything if nothing is known.
indexing::Interval value_range(mlir::Value value);

/// The attribute `strata.range` of an argument of a function.
std::optional<indexing::Interval> argument_range(mlir::func::FuncOp function, unsigned argument);

/// An expression over values: dimension i stands for values[i], which lies in ranges[i].
struct IndexExpr {
  indexing::Expr expr;
  llvm::SmallVector<mlir::Value> values;
  std::vector<indexing::Interval> ranges;

  /// The number of a dimension for the value, a new one if there is none yet; the range is intersected.
  int add(mlir::Value value, const indexing::Interval& range);
  /// Without dimensions that do not occur, those of one value as constants; simplified.
  void simplify();
  /// As a map of one result.
  indexing::IndexingMap map() const;
};

/// The value as an expression over others: its own map if it is a result of apply_indexing, a constant, or itself.
IndexExpr expression_of(mlir::Value value);

/// The value of an expression: an apply_indexing after simplification, a constant, or one of the values.
mlir::Value materialize(mlir::OpBuilder& builder, mlir::Location location, IndexExpr expr);

/// The value of an expression over the dimensions and range variables of a map, at these values.
mlir::Value apply_expr(mlir::OpBuilder& builder, mlir::Location location, const indexing::IndexingMap& map,
                       const indexing::Expr& expr, mlir::ValueRange dims, mlir::ValueRange ranges);

/// For an index computation that moves out of a branch: its map has the ranges of its operands that are known outside,
/// not those that the branch's condition established.
void forget_conditions(ApplyIndexingOp apply);

/// Operations in a region, nested ones too.
int64_t count_operations(mlir::Region& region);

}  // namespace strata::emitters
