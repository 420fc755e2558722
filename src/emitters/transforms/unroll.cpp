// Loops of few iterations disappear, others are unrolled in part, as far as registers and code size allow: so that more
// loads are on their way at once.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>
#include <mlir/IR/IRMapping.h>

#include "emitters/dialect/dialect.h"
#include "emitters/transforms/index_values.h"
#include "emitters/transforms/memory.h"
#include "emitters/transforms/passes.h"

namespace strata::emitters {
namespace {

namespace scf = mlir::scf;
using mlir::Value;
using Values = llvm::SmallVector<Value>;

constexpr int64_t kMaxOperations = 1024;        ///< of all copies of a body
constexpr int64_t kMaxPartialOperations = 256;  ///< of those in a loop that stays

/// Registers of 32 bits that a value takes.
int64_t registers_of(mlir::Type type) {
  if (const auto vector = llvm::dyn_cast<mlir::VectorType>(type)) {
    return (vector.getNumElements() * stored_bytes(vector.getElementType()) + 3) / 4;
  }
  if (llvm::isa<mlir::TensorType>(type) || type.isIndex()) return 1;
  if (!type.isIntOrFloat() && !llvm::isa<mlir::ComplexType>(type)) return 1;
  return (stored_bytes(type) + 3) / 4;
}

/// Registers that one iteration's loads wait in: copies of the body have theirs at the same time.
int64_t loaded_registers(scf::ForOp loop) {
  int64_t count = 0;
  loop.walk([&](mlir::Operation* op) {
    if (llvm::isa<mlir::tensor::ExtractOp, mlir::vector::TransferReadOp, PredicatedExtractOp>(op)) {
      count += registers_of(op->getResult(0).getType());
    }
  });
  return count;
}

/// Whether the body is large whatever it counts: a loop that stays, or a barrier.
bool has_loops(scf::ForOp loop) {
  bool found = false;
  loop.getBody()->walk([&](mlir::Operation* op) { found |= llvm::isa<scf::ForOp, scf::WhileOp, SyncThreadsOp>(op); });
  return found;
}

/// Whether a vector that the loop carries is read or written at a place that depends on its variable: as long as the
/// loop stays, no register has it, and every access goes to the thread's own memory.
bool finds_elements(scf::ForOp loop) {
  const auto depends = [&](Value place) {
    return llvm::is_contained(expression_of(place).values, loop.getInductionVar());
  };
  bool found = false;
  loop.getBody()->walk([&](mlir::Operation* op) {
    if (auto read = llvm::dyn_cast<mlir::vector::ExtractOp>(op))
      found |= llvm::any_of(read.getDynamicPosition(), depends);
    if (auto write = llvm::dyn_cast<mlir::vector::InsertOp>(op))
      found |= llvm::any_of(write.getDynamicPosition(), depends);
  });
  return found;
}

/// How many copies of the body one iteration of the new loop has; `trip` if there is no loop any more. What is left of
/// the iterations comes after the loop.
int64_t choose_factor(scf::ForOp loop, int64_t trip, const LoweringOptions& options) {
  const int64_t size = count_operations(loop.getRegion());
  if (loop->hasAttr("strata.vector")) return trip;
  if (trip == 1) return 1;
  if (trip <= options.max_unroll && finds_elements(loop)) return trip;
  if (has_loops(loop)) return 1;
  const int64_t loaded = std::max<int64_t>(loaded_registers(loop), 1);
  const bool fits = trip * loaded <= options.registers;
  if (fits && trip <= options.max_unroll && trip * size <= kMaxOperations) return trip;
  if (fits && trip * size <= kMaxPartialOperations / 4) return trip;
  // Iterations that are left over wait for their loads together, too. Without loads they may stay as they are.
  const bool waits = loaded_registers(loop) > 0;
  const auto may = [&](int64_t factor) {
    return factor <= options.max_unroll && factor <= trip && factor * loaded <= options.registers / 2 &&
           (factor + trip % factor) * size <= kMaxPartialOperations && (waits || trip % factor == 0);
  };
  int64_t factor = 1;
  while (may(2 * factor)) factor *= 2;
  return factor;
}

/// The body once more, for a value of the loop's variable.
Values copy_body(mlir::OpBuilder& builder, scf::ForOp loop, Value variable, mlir::ValueRange arguments) {
  mlir::IRMapping mapping;
  mapping.map(loop.getInductionVar(), variable);
  mapping.map(loop.getRegionIterArgs(), arguments);
  for (mlir::Operation& op : loop.getBody()->without_terminator()) builder.clone(op, mapping);
  Values results;
  for (const Value value : loop.getYieldedValues()) results.push_back(mapping.lookupOrDefault(value));
  return results;
}

/// A loop's iterations.
struct Iterations {
  int64_t lower, step, count;
};

/// Copies of the body from one iteration to the last.
Values copies_from(mlir::OpBuilder& builder, scf::ForOp loop, const Iterations& all, int64_t first, Values values) {
  for (int64_t i = first; i < all.count; ++i) {
    const Value variable = builder.create<mlir::arith::ConstantIndexOp>(loop.getLoc(), all.lower + i * all.step);
    values = copy_body(builder, loop, variable, values);
  }
  return values;
}

void unroll_whole(scf::ForOp loop, const Iterations& all) {
  mlir::OpBuilder builder(loop);
  loop.replaceAllUsesWith(copies_from(builder, loop, all, 0, Values(loop.getInits())));
  loop.erase();
}

void unroll_in_part(scf::ForOp loop, const Iterations& all, int64_t factor) {
  mlir::OpBuilder builder(loop);
  const auto [lower, step, trip] = all;
  const int64_t whole = trip - trip % factor;
  const Value wide = builder.create<mlir::arith::ConstantIndexOp>(loop.getLoc(), step * factor);
  const Value end = whole == trip ? loop.getUpperBound()
                                  : builder.create<mlir::arith::ConstantIndexOp>(loop.getLoc(), lower + whole * step);
  auto changed = builder.create<scf::ForOp>(
      loop.getLoc(), loop.getLowerBound(), end, wide, loop.getInits(),
      [&](mlir::OpBuilder& inside, mlir::Location location, Value variable, mlir::ValueRange arguments) {
        Values values(arguments);
        for (int64_t i = 0; i < factor; ++i) {
          IndexExpr shifted = expression_of(variable);
          shifted.ranges[0] = value_range(loop.getInductionVar());
          shifted.expr = shifted.expr + i * step;
          values = copy_body(inside, loop, materialize(inside, location, std::move(shifted)), values);
        }
        inside.create<scf::YieldOp>(location, values);
      });
  changed->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  loop.replaceAllUsesWith(copies_from(builder, loop, all, whole, Values(changed.getResults())));
  loop.erase();
}

}  // namespace

mlir::LogicalResult unroll(mlir::ModuleOp module, const LoweringOptions& options) {
  llvm::SmallVector<scf::ForOp> loops;  // inner ones first
  module.walk([&](scf::ForOp loop) { loops.push_back(loop); });
  for (scf::ForOp loop : loops) {
    const indexing::Interval lower = value_range(loop.getLowerBound());
    const indexing::Interval upper = value_range(loop.getUpperBound());
    const indexing::Interval step = value_range(loop.getStep());
    if (!loop.getInductionVar().getType().isIndex()) continue;
    if (!lower.is_point() || !upper.is_point() || !step.is_point() || step.lo <= 0) continue;
    const int64_t trip = std::max<int64_t>(indexing::ceil_div(upper.lo - lower.lo, step.lo), 0);
    const int64_t factor = choose_factor(loop, trip, options);
    if (factor == trip) {
      unroll_whole(loop, {lower.lo, step.lo, trip});
    } else if (factor > 1) {
      unroll_in_part(loop, {lower.lo, step.lo, trip}, factor);
    }
  }
  return mlir::success();
}

}  // namespace strata::emitters
