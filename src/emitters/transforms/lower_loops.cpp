// strata.loop → a nest of scf.for, the last range variable innermost. Every condition stands as far outside as its
// variables allow.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/IR/IRMapping.h>

#include "emitters/dialect/dialect.h"
#include "emitters/transforms/index_values.h"
#include "emitters/transforms/passes.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

using indexing::Constraint;
using indexing::ExprKind;
using indexing::IndexingMap;
using indexing::Interval;
using mlir::Location;
using mlir::OpBuilder;
using mlir::Value;
using mlir::ValueRange;
using Values = llvm::SmallVector<Value>;

class LoopLowering {
 public:
  explicit LoopLowering(LoopOp loop)
      : loop_(loop), map_(indexing::simplify(loop.indexing_map(), indexing::UnusedVariables::Keep)) {}

  void run() {
    OpBuilder builder(loop_);
    Values results(loop_.getInits());
    if (!map_.known_empty) {
      std::vector<Interval> given;
      for (const Value dim : loop_.getDims()) given.push_back(value_range(dim));
      conditions_ = indexing::guards(map_, given, map_.ranges);
      results = level(builder, 0, results);
    }
    loop_.replaceAllUsesWith(results);
    loop_.erase();
  }

 private:
  /// Loops from range variable `number` on, under the conditions that need no more than those before it.
  Values level(OpBuilder& builder, size_t number, ValueRange inits) {
    Value condition;
    for (const Constraint& constraint : conditions_) {
      if (level_of(constraint) == number) condition = conjunction(builder, condition, constraint);
    }
    if (!condition) return loops(builder, number, inits);
    const auto then = [&](OpBuilder& inside, Location) {
      inside.create<mlir::scf::YieldOp>(location(), loops(inside, number, inits));
    };
    const auto otherwise = [&](OpBuilder& inside, Location) { inside.create<mlir::scf::YieldOp>(location(), inits); };
    auto branch = inits.empty() ? builder.create<mlir::scf::IfOp>(location(), condition, then)
                                : builder.create<mlir::scf::IfOp>(location(), condition, then, otherwise);
    return Values(branch.getResults());
  }

  Values loops(OpBuilder& builder, size_t number, ValueRange inits) {
    if (number == map_.ranges.size()) return body(builder, inits);
    const auto constant = [&](int64_t value) -> Value {
      return builder.create<mlir::arith::ConstantIndexOp>(location(), value);
    };
    const Interval range = map_.ranges[number];
    if (range.is_point()) {
      variables_.push_back(constant(range.lo));
      Values results = level(builder, number + 1, inits);
      variables_.pop_back();
      return results;
    }
    auto nest = builder.create<mlir::scf::ForOp>(
        location(), constant(range.lo), constant(range.hi + 1), constant(1), inits,
        [&](OpBuilder& inside, Location, Value variable, ValueRange arguments) {
          variables_.push_back(variable);
          inside.create<mlir::scf::YieldOp>(location(), level(inside, number + 1, arguments));
          variables_.pop_back();
        });
    if (loop_.getVector() == static_cast<uint64_t>(number)) nest->setAttr("strata.vector", builder.getUnitAttr());
    return Values(nest.getResults());
  }

  Values body(OpBuilder& builder, ValueRange inits) {
    mlir::IRMapping mapping;
    mapping.map(loop_.range_variables(), ValueRange(variables_));
    for (const auto& [argument, result] : llvm::zip_equal(loop_.map_results(), map_.results)) {
      mapping.map(argument, apply_expr(builder, location(), map_, result, loop_.getDims(), variables_));
    }
    mapping.map(loop_.iteration_arguments(), inits);
    mlir::Block& block = loop_.getBody().front();
    for (mlir::Operation& op : block.without_terminator()) builder.clone(op, mapping);
    Values results;
    for (const Value value : block.getTerminator()->getOperands()) results.push_back(mapping.lookupOrDefault(value));
    return results;
  }

  static size_t level_of(const Constraint& constraint, size_t ranges) {
    size_t level = 0;
    for (size_t i = 0; i < ranges; ++i) {
      if (constraint.expr.uses(ExprKind::Range, static_cast<int>(i))) level = i + 1;
    }
    return level;
  }
  size_t level_of(const Constraint& constraint) const { return level_of(constraint, map_.ranges.size()); }

  Value conjunction(OpBuilder& builder, Value condition, const Constraint& constraint) {
    using Predicate = mlir::arith::CmpIPredicate;
    // The ranges of the map are what may have to be tested: only what is known without it counts here.
    IndexingMap known = map_;
    for (size_t i = 0; i < known.dims.size(); ++i)
      known.dims[i] = value_range(loop_.getDims()[static_cast<unsigned>(i)]);
    known.constraints.clear();
    const Interval possible = indexing::ExprRange(known)(constraint.expr);
    const Values ranges(variables_of(constraint));
    const Value tested = apply_expr(builder, location(), known, constraint.expr, loop_.getDims(), ranges);
    const auto require = [&](Predicate predicate, int64_t bound) {
      const Value limit = builder.create<mlir::arith::ConstantIndexOp>(location(), bound);
      const Value holds = builder.create<mlir::arith::CmpIOp>(location(), predicate, tested, limit);
      condition = condition ? builder.create<mlir::arith::AndIOp>(location(), condition, holds).getResult() : holds;
    };
    const Interval bounds = constraint.bounds;
    if (bounds.is_point()) {
      require(Predicate::eq, bounds.lo);
      return condition;
    }
    if (possible.lo < bounds.lo) require(Predicate::sge, bounds.lo);
    if (possible.hi > bounds.hi) require(Predicate::sle, bounds.hi);
    return condition;
  }

  /// Those that the constraint's level has.
  ValueRange variables_of(const Constraint& constraint) const {
    return ValueRange(variables_).take_front(level_of(constraint));
  }

  Location location() { return loop_.getLoc(); }

  LoopOp loop_;
  IndexingMap map_;
  std::vector<Constraint> conditions_;
  Values variables_;
};

}  // namespace

mlir::LogicalResult lower_loops(mlir::ModuleOp module, const LoweringOptions&) {
  llvm::SmallVector<LoopOp> loops;  // inner ones first: what is cloned is lowered already
  module.walk([&](LoopOp loop) { loops.push_back(loop); });
  for (LoopOp loop : loops) LoopLowering(loop).run();
  return mlir::success();
}

}  // namespace strata::emitters
