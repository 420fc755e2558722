// strata.loop → a nest of scf.for, the last range variable innermost. Every condition stands as far outside as its
// variables allow.
//
// A branch around a body ends a basic block, and no load moves over it: copies of the body of an unrolled loop would
// wait for each other's loads. Where the loop says which results of its map are safe (`strata.within`, a size for
// each), the body of points that conditions exclude runs too, on indices that are clamped, and what it gives is
// dropped.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/IR/IRMapping.h>
#include <mlir/IR/SymbolTable.h>

#include "emitters/dialect/atomic_fetch.h"
#include "emitters/dialect/dialect.h"
#include "emitters/transforms/index_values.h"
#include "emitters/transforms/passes.h"
#include "indexing/expr_range.h"
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

constexpr int64_t kMaxDropped = 128;  ///< operations of a body that runs though its results may be dropped
/// And the least share of a condition's values that satisfy it.
constexpr double kLeastShare = 0.5;

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
      drops_ = may_drop();
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
    if (drops_ && number > 0) {
      const Value around = holds_;
      holds_ = around ? builder.create<mlir::arith::AndIOp>(location(), around, condition).getResult() : condition;
      Values results = loops(builder, number, inits);
      holds_ = around;
      for (size_t i = 0; i < results.size(); ++i) {
        if (llvm::isa<mlir::TensorType>(results[i].getType()) || results[i] == inits[i]) continue;
        results[i] = builder.create<mlir::arith::SelectOp>(location(), condition, results[i], inits[i]);
      }
      return results;
    }
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
      Value value = apply_expr(builder, location(), map_, result, loop_.getDims(), variables_);
      if (holds_) value = clamped(builder, value, argument.getArgNumber() - map_.ranges.size());
      mapping.map(argument, value);
    }
    mapping.map(loop_.iteration_arguments(), inits);
    mlir::Block& block = loop_.getBody().front();
    for (mlir::Operation& op : block.without_terminator()) {
      auto insert = llvm::dyn_cast<mlir::tensor::InsertOp>(op);
      if (!insert || !holds_) {
        builder.clone(op, mapping);
        continue;
      }
      Values indices;
      for (const Value index : insert.getIndices()) indices.push_back(mapping.lookupOrDefault(index));
      auto predicated = builder.create<PredicatedInsertOp>(location(), insert.getType(), holds_,
                                                           mapping.lookupOrDefault(insert.getScalar()),
                                                           mapping.lookupOrDefault(insert.getDest()), indices);
      predicated->setAttr("strata.late", builder.getUnitAttr());
      mapping.map(insert.getResult(), predicated.getResult());
    }
    Values results;
    for (const Value value : block.getTerminator()->getOperands()) results.push_back(mapping.lookupOrDefault(value));
    return results;
  }

  // --- bodies whose results may be dropped ---

  /// Whether the conditions inside the loops may be tested after the body: it has nothing but operations without effect
  /// and writes of elements, of which most points keep the results.
  bool may_drop() {
    const auto within = loop_->getAttrOfType<mlir::DenseI64ArrayAttr>("strata.within");
    if (!within || static_cast<size_t>(within.size()) != map_.results.size()) return false;
    if (count_operations(loop_.getBody()) > kMaxDropped) return false;
    bool dropped = false;
    for (const Constraint& constraint : conditions_) {
      if (level_of(constraint) == 0) continue;
      dropped = true;
      const auto vector = loop_.getVector();
      if (vector && !map_.ranges[*vector].is_point() &&
          constraint.expr.uses(ExprKind::Range, static_cast<int>(*vector)))
        return false;
      const Interval possible = in_box(constraint.expr);
      const Interval kept = intersect(possible, constraint.bounds);
      if (static_cast<double>(kept.hi - kept.lo + 1) < kLeastShare * static_cast<double>(possible.hi - possible.lo + 1))
        return false;
    }
    if (!dropped) return false;
    for (size_t i = 0; i < map_.results.size(); ++i) {
      if (needs_clamp(i) && is_vector_index(i)) return false;
    }
    return llvm::all_of(loop_.getBody().front().without_terminator(), [&](mlir::Operation& op) { return is_free(op); });
  }

  /// Whether an operation of the body may run for nothing.
  bool is_free(mlir::Operation& op) {
    if (llvm::isa<mlir::tensor::InsertOp>(op)) return !has_vector();  // vectors of stores have no conditions
    bool calls = false;
    op.walk([&](mlir::Operation* inner) {
      // Atomic and predicated updates are pure by their types alone: run for nothing, they would change memory.
      const bool branches = llvm::isa<mlir::scf::ForOp, mlir::scf::WhileOp, LoopOp, AtomicRmwOp, AtomicFetchOp,
                                      PredicatedInsertOp, SyncThreadsOp>(inner);
      auto call = llvm::dyn_cast<PureCallOp>(inner);
      const bool writes = inner != &op && llvm::isa<mlir::tensor::InsertOp>(inner);
      calls |= branches || writes || (call && !is_math(call));
    });
    return !calls && (mlir::isPure(&op) || llvm::isa<mlir::scf::IfOp>(op));
  }

  bool has_vector() { return loop_.getVector() && !map_.ranges[*loop_.getVector()].is_point(); }

  /// Whether it calls a function of the math library, which is only declared.
  static bool is_math(PureCallOp call) {
    auto function = mlir::SymbolTable::lookupNearestSymbolFrom<mlir::func::FuncOp>(call, call.getCalleeAttr());
    return function && function.isDeclaration();
  }

  /// Without the conditions inside the loops.
  Interval in_box(const indexing::Expr& expr) const {
    IndexingMap box = map_;
    llvm::erase_if(box.constraints, [&](const Constraint& one) { return level_of(one) > 0; });
    return indexing::ExprRange(box)(expr);
  }

  /// What a result of the map may be, within the size that the loop gives.
  Interval allowed(size_t result) {
    const auto within = loop_->getAttrOfType<mlir::DenseI64ArrayAttr>("strata.within");
    const IndexingMap& given = loop_.indexing_map();  // what the body was simplified for
    return intersect(indexing::ExprRange(given)(given.results[result]), {0, within[static_cast<int64_t>(result)] - 1});
  }
  bool needs_clamp(size_t result) { return !allowed(result).contains(in_box(map_.results[result])); }
  bool is_vector_index(size_t result) {
    return has_vector() && map_.results[result].uses(ExprKind::Range, static_cast<int>(*loop_.getVector()));
  }

  Value clamped(OpBuilder& builder, Value value, size_t result) {
    const Interval range = allowed(result), possible = in_box(map_.results[result]);
    const auto constant = [&](int64_t bound) {
      return builder.create<mlir::arith::ConstantIndexOp>(location(), bound).getResult();
    };
    if (possible.hi > range.hi) value = builder.create<mlir::arith::MinSIOp>(location(), value, constant(range.hi));
    if (possible.lo < range.lo) value = builder.create<mlir::arith::MaxSIOp>(location(), value, constant(range.lo));
    return value;
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
  bool drops_ = false;  ///< whether conditions inside the loops are tested after the body
  Value holds_;         ///< those of the body that is being made
};

}  // namespace

mlir::LogicalResult lower_loops(mlir::ModuleOp module, const LoweringOptions&) {
  llvm::SmallVector<LoopOp> loops;  // inner ones first: what is cloned is lowered already
  module.walk([&](LoopOp loop) { loops.push_back(loop); });
  for (LoopOp loop : loops) LoopLowering(loop).run();
  return mlir::success();
}

}  // namespace strata::emitters
