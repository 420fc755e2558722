// Operators that combine many elements into one, as loops: reduce, reduce-window, dot, convolution, scatter.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Complex/IR/Complex.h>
#include <mlir/Dialect/SCF/IR/SCF.h>

#include "emitters/dialect/dialect.h"
#include "emitters/elemental/function_emitter.h"
#include "emitters/elemental/scalar_operators.h"
#include "emitters/elemental/types.h"
#include "indexing/simplify.h"

namespace strata::emitters {

using hlo::ElementType;
using hlo::InstructionId;
using indexing::IndexingMap;
using mlir::Value;
using mlir::ValueRange;

Result<Values> FunctionEmitter::accumulate(InstructionId instruction, const IndexingMap& map, Values initial,
                                           const Step& step) {
  IndexingMap over = composed(instruction, map);
  if (over.known_empty) return initial;
  // What the instruction's index satisfies already needs no test in the loop, nor do its known ranges.
  const IndexingMap& index = fusion_.partition().index_of[static_cast<size_t>(instruction)];
  std::erase_if(over.constraints, [&](const indexing::Constraint& one) {
    return std::find(index.constraints.begin(), index.constraints.end(), one) != index.constraints.end();
  });
  over.results.clear();
  STRATA_TRY(MapValues values, variables({{}, over.dims, {}, over.runtime, {}, false}, {}));
  // A loop has no runtime variables: here they are dimensions after the others.
  const int dims = static_cast<int>(over.dims.size());
  for (const indexing::RuntimeVariable& variable : over.runtime) over.dims.push_back(variable.range);
  for (indexing::Constraint& constraint : over.constraints) {
    constraint.expr = indexing::substitute(constraint.expr, [&](indexing::ExprKind kind, int number) {
      if (kind == indexing::ExprKind::Runtime) return indexing::Expr::dim(dims + number);
      return indexing::Expr::variable(kind, number);
    });
  }
  over.runtime.clear();
  values.dims.append(values.runtime);
  std::optional<Error> error;
  auto loop = create_loop(
      builder_, over, values.dims, initial, std::nullopt,
      [&](mlir::ImplicitLocOpBuilder& inside, ValueRange ranges, ValueRange, ValueRange accumulated) -> Values {
        mlir::OpBuilder::InsertionGuard guard(builder_);
        builder_.setInsertionPoint(inside.getInsertionBlock(), inside.getInsertionPoint());
        scopes_.emplace_back();
        Result<Values> next = step(ranges, accumulated);
        scopes_.pop_back();
        inside.setInsertionPoint(builder_.getInsertionBlock(), builder_.getInsertionPoint());
        if (next) return *next;
        error = std::move(next).error();
        return Values(accumulated);
      });
  if (error) return tl::unexpected(std::move(*error));
  return Values(loop.getResults());
}

Result<Values> FunctionEmitter::fold_by_function(InstructionId id) {
  const hlo::Instruction& it = computation_[id];
  const size_t count = it.operands.size() / 2;
  STRATA_TRY(const std::vector<indexing::Read> reads, reads_of(id));
  STRATA_TRY(mlir::func::FuncOp function, fusion_.scalar_function(it.called[0], /*wide=*/true));
  const auto type_of = [&](size_t i) { return computation_.operand_shape(it, i).type; };
  Values initial;
  const indexing::Read* first = nullptr;
  for (const indexing::Read& one : reads) {
    if (one.operand == 0) first = &one;
  }
  for (size_t i = 0; i < count; ++i) {
    STRATA_TRY(const Value value, read(id, static_cast<int>(count + i)));
    initial.push_back(widened(builder_, value, type_of(count + i)));
  }
  if (first != nullptr && !first->maps.empty()) {
    const Step step = [&](ValueRange ranges, ValueRange accumulated) -> Result<Values> {
      Values operands(accumulated);
      for (size_t i = 0; i < count; ++i) {
        indexing::Read one = *first;
        one.operand = static_cast<int>(i);
        STRATA_TRY(const Value value, read(id, one, one.maps[0], ranges));
        operands.push_back(widened(builder_, value, type_of(i)));
      }
      return Values(builder_.create<PureCallOp>(function.getResultTypes(), function.getName(), operands).getResults());
    };
    STRATA_TRY(initial, accumulate(id, first->maps[0], std::move(initial), step));
  }
  Values results;
  for (size_t i = 0; i < count; ++i) {
    const hlo::Shape& shape = indexing::element_shape(it.shape, static_cast<int>(i));
    results.push_back(narrowed(builder_, initial[i], shape.type));
  }
  return results;
}

Result<Value> FunctionEmitter::contraction(InstructionId id) {
  const hlo::Instruction& it = computation_[id];
  STRATA_TRY(const std::vector<indexing::Read> reads, reads_of(id));
  const ElementType type = wide_type(it.shape.type);
  const Value zero = emit_zero(builder_, type);
  if (reads.size() != 2 || reads[0].maps.size() != 1 || reads[1].maps.size() != 1)
    return emit_zero(builder_, it.shape.type);
  // Both maps have the same ranges and guards; those of the left side are looped over.
  const Step step = [&](ValueRange ranges, ValueRange accumulated) -> Result<Values> {
    Values sides;
    for (const indexing::Read& one : reads) {
      STRATA_TRY(const Value value, read(id, one, one.maps[0], ranges));
      sides.push_back(
          emit_convert(builder_, value, computation_.operand_shape(it, static_cast<size_t>(one.operand)).type, type));
    }
    const Value product = emit_multiply(builder_, sides[0], sides[1]);
    return Values{emit_add(builder_, accumulated[0], product)};
  };
  STRATA_TRY(const Values sums, accumulate(id, reads[0].maps[0], {zero}, step));
  return emit_convert(builder_, sums[0], type, it.shape.type);
}

Result<Values> FunctionEmitter::scatter(InstructionId id) { return no_code(id); }

}  // namespace strata::emitters
