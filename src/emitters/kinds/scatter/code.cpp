// Pieces of the kernels that scatter by rows.
#include <mlir/Dialect/Tensor/IR/Tensor.h>

#include "emitters/dialect/dialect.h"
#include "emitters/kinds/in_place.h"
#include "emitters/kinds/scatter/rows.h"

namespace strata::emitters {

namespace arith = mlir::arith;
using Builder = mlir::ImplicitLocOpBuilder;
using mlir::Value;
using mlir::ValueRange;

Value load_index(Builder& builder, Value temporary, Value position) {
  const Value integer = builder.create<mlir::tensor::ExtractOp>(temporary, position);
  return builder.create<arith::IndexCastUIOp>(builder.getIndexType(), integer);
}

Value store_index(Builder& builder, Value index, Value temporary, Value position) {
  const Value integer = builder.create<arith::IndexCastOp>(builder.getI32Type(), index);
  return builder.create<mlir::tensor::InsertOp>(integer, temporary, position);
}

Value record_of(Builder& builder, const ScatterRowsPlan& plan, Value row) {
  return at(builder, indexing::Expr::dim(0) * plan.record, {indexing::below(plan.shape.rows)}, row);
}

Value total_of(Builder& builder, const ScatterRowsPlan& plan, Total total) {
  return index_constant(builder, (plan.shape.rows + static_cast<int64_t>(total)) * plan.record);
}

Value run_of(Builder& builder, const ScatterRowsPlan& plan, Value row, int64_t which) {
  return at(builder, indexing::Expr::dim(0) * plan.record + which, {indexing::below(plan.shape.rows)}, row);
}

std::pair<Value, Value> record_fields(Builder& builder, Value record) {
  const auto half = [&](Value bits) -> Value {
    const Value word = builder.create<arith::TruncIOp>(builder.getI32Type(), bits);
    return builder.create<arith::IndexCastUIOp>(builder.getIndexType(), word);
  };
  const Value shift = builder.create<arith::ConstantIntOp>(32, 64);
  return {half(record), half(builder.create<arith::ShRUIOp>(record, shift))};
}

Value load_count(Builder& builder, const ScatterRowsPlan& plan, Value records, Value row) {
  const Value record = builder.create<mlir::tensor::ExtractOp>(records, record_of(builder, plan, row));
  return record_fields(builder, record).first;
}

Value load_total(Builder& builder, const ScatterRowsPlan& plan, Value records, Total total) {
  const Value record = builder.create<mlir::tensor::ExtractOp>(records, total_of(builder, plan, total));
  return record_fields(builder, record).first;
}

Value slot_of(Builder& builder, const ScatterRowsPlan& plan, Value row, Value number) {
  return at(builder, indexing::Expr::dim(0) * plan.slots + indexing::Expr::dim(1),
            {indexing::below(plan.shape.rows), indexing::below(plan.slots)}, {row, number});
}

Result<Value> row_of(Builder& builder, const RowsEmission& emission, ValueRange inputs, Value window) {
  const ScatterRows& shape = emission.plan.shape;
  Values values{window};
  for (const indexing::IndexingMap& start : shape.starts) {
    const Values place = apply_map(builder, start, {{window}, {}, {}});
    STRATA_TRY(const Values integer, emission.functions.read(builder, shape.indices, inputs, place));
    values.push_back(index_of(builder, integer[0], emission.functions.computation()[shape.indices].shape.type));
  }
  if (shape.fits.constraints.empty()) return apply_map(builder, shape.row, {values, {}, {}})[0];
  const Value fits = constraints_hold(builder, shape.fits, shape.fits.constraints, {values, {}, {}});
  return if_holds(builder, fits, index_constant(builder, -1), [&](Builder& inside) {
    return Values{apply_map(inside, shape.row, {values, {}, {}})[0]};
  })[0];
}

}  // namespace strata::emitters
