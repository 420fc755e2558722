#include "emitters/kinds/code.h"

#include <mlir/Dialect/SCF/IR/SCF.h>

namespace strata::emitters {

namespace arith = mlir::arith;
using Builder = mlir::ImplicitLocOpBuilder;
using mlir::Value;
using mlir::ValueRange;

Value index_constant(Builder& builder, int64_t value) { return builder.create<arith::ConstantIndexOp>(value); }

Value compare(Builder& builder, arith::CmpIPredicate predicate, Value a, Value b) {
  return builder.create<arith::CmpIOp>(predicate, a, b);
}

Value at(Builder& builder, const indexing::Expr& expr, const std::vector<indexing::Interval>& ranges,
         ValueRange values) {
  indexing::IndexingMap map;
  map.results = {expr};
  map.dims = ranges;
  return apply_map(builder, map, {Values(values), {}, {}})[0];
}

Values if_holds(Builder& builder, Value condition, ValueRange otherwise, Branch then) {
  if (!condition) return then(builder);
  auto branches = builder.create<mlir::scf::IfOp>(otherwise.getTypes(), condition, /*withElse=*/true);
  mlir::OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branches.thenBlock());
  builder.create<mlir::scf::YieldOp>(then(builder));
  builder.setInsertionPointToStart(branches.elseBlock());
  builder.create<mlir::scf::YieldOp>(otherwise);
  return Values(branches.getResults());
}

}  // namespace strata::emitters
