// Loads, stores and atomic sums in a loop over a vector variable, at places that count with it from a multiple of the
// width, become vectors: read before the loop, written after it. The unroller makes registers of what the loop then
// does to them. A load under conditions that stay the same in the loop is read under these.
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>
#include <mlir/Transforms/LoopInvariantCodeMotionUtils.h>

#include "emitters/dialect/dialect.h"
#include "emitters/transforms/index_values.h"
#include "emitters/transforms/memory.h"
#include "emitters/transforms/passes.h"
#include "indexing/memory_access.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

namespace scf = mlir::scf;
using indexing::Expr;
using indexing::ExprKind;
using mlir::RankedTensorType;
using mlir::Value;
using mlir::ValueRange;

constexpr int64_t kMaxTrip = 32;

class LoopVectorizer {
 public:
  LoopVectorizer(scf::ForOp loop, const LoweringOptions& options)
      : loop_(loop), builder_(loop), options_(options), trip_(value_range(loop.getUpperBound()).hi) {}

  void run() {
    loop_.getBody()->walk([&](mlir::arith::CmpIOp test) { test_once(test); });
    mlir::moveLoopInvariantCode(loop_);  // indices of rows, for one
    llvm::SmallVector<mlir::tensor::ExtractOp> extracts;
    loop_.getBody()->walk([&](mlir::tensor::ExtractOp extract) { extracts.push_back(extract); });
    for (auto extract : extracts) load(extract);
    store();
  }

 private:
  mlir::Location location() { return loop_.getLoc(); }

  static llvm::SmallVector<int64_t> numbers(int64_t first, int64_t count) {
    return llvm::to_vector(llvm::seq(first, first + count));
  }

  /// What is below a multiple of the loop's length for its first element is so for all that count on from there.
  void test_once(mlir::arith::CmpIOp test) {
    using Predicate = mlir::arith::CmpIPredicate;
    const indexing::Interval bound = value_range(test.getRhs());
    if (!bound.is_point() || !test.getLhs().getType().isIndex()) return;
    const bool below = test.getPredicate() == Predicate::slt || test.getPredicate() == Predicate::sge;
    const bool up_to = test.getPredicate() == Predicate::sle || test.getPredicate() == Predicate::sgt;
    if (!below && !up_to) return;
    if ((bound.lo + (up_to ? 1 : 0)) % trip_ != 0 || counting_width(test.getLhs(), trip_) != trip_) return;
    builder_.setInsertionPoint(test);
    test.getLhsMutable().assign(indices_at(test.getLhs(), 0)[0]);
  }

  /// A branch in which an operation of the loop is.
  struct Branch {
    Value condition;
    bool holds = true;
  };

  /// All of them; nothing if one may be taken for some of a vector's elements, or is no branch.
  std::optional<llvm::SmallVector<Branch>> branches_around(mlir::Operation* op) {
    llvm::SmallVector<Branch> branches;
    for (; op->getParentOp() != loop_; op = op->getParentOp()) {
      auto branch = llvm::dyn_cast<scf::IfOp>(op->getParentOp());
      if (!branch || !loop_.isDefinedOutsideOfLoop(branch.getCondition())) return std::nullopt;
      branches.push_back({branch.getCondition(), op->getParentRegion() == &branch.getThenRegion()});
    }
    return branches;
  }

  Value conjunction(llvm::ArrayRef<Branch> branches) {
    Value all;
    for (const Branch& branch : branches) {
      Value one = branch.condition;
      if (!branch.holds) {
        const Value always = builder_.create<mlir::arith::ConstantIntOp>(location(), 1, 1);
        one = builder_.create<mlir::arith::XOrIOp>(location(), one, always);
      }
      all = all ? builder_.create<mlir::arith::AndIOp>(location(), all, one).getResult() : one;
    }
    return all;
  }

  void load(mlir::tensor::ExtractOp extract) {
    const auto tensor = extract.getTensor();
    if (!loop_.isDefinedOutsideOfLoop(tensor)) return;
    const auto branches = branches_around(extract);
    if (!branches) return;
    const int64_t width = width_of(tensor.getType(), extract.getIndices());
    if (width == 1) return;
    builder_.setInsertionPoint(loop_);
    Value all;
    if (branches->empty()) {
      all = read(extract, width);
    } else {
      const auto type = mlir::VectorType::get({trip_}, tensor.getType().getElementType());
      auto guarded = builder_.create<scf::IfOp>(location(), type, conjunction(*branches), /*withElseRegion=*/true);
      builder_.setInsertionPointToStart(guarded.thenBlock());
      builder_.create<scf::YieldOp>(location(), read(extract, width));
      builder_.setInsertionPointToStart(guarded.elseBlock());
      const Value none = builder_.create<mlir::arith::ConstantOp>(location(), builder_.getZeroAttr(type));
      builder_.create<scf::YieldOp>(location(), none);
      all = guarded.getResult(0);
    }
    builder_.setInsertionPoint(extract);
    extract.replaceAllUsesWith(
        builder_.create<mlir::vector::ExtractOp>(location(), all, loop_.getInductionVar()).getResult());
    extract.erase();
  }

  /// All of the loop's elements, in vectors of `width`.
  Value read(mlir::tensor::ExtractOp extract, int64_t width) {
    const auto tensor = extract.getTensor();
    const auto part = mlir::VectorType::get({width}, tensor.getType().getElementType());
    Value all;
    for (int64_t first = 0; first < trip_; first += width) {
      const llvm::SmallVector<Value> at = indices_at(extract.getIndices(), first);
      const Value read =
          builder_.create<mlir::vector::TransferReadOp>(location(), part, tensor, at, llvm::ArrayRef<bool>{true});
      all = all ? builder_.create<mlir::vector::ShuffleOp>(location(), all, read, numbers(0, first + width)).getResult()
                : read;
    }
    return all;
  }

  /// An insert, or an atomic sum.
  struct Store {
    unsigned number = 0;  ///< of the iteration argument
    mlir::Operation* write = nullptr;
    Value element, dest;
    llvm::SmallVector<Value> indices;
    int64_t width = 1;

    bool is_atomic() const { return llvm::isa<AtomicRmwOp>(write); }
  };

  static std::optional<Store> store_of(mlir::Operation* op) {
    Store found;
    found.write = op;
    if (auto insert = llvm::dyn_cast_or_null<mlir::tensor::InsertOp>(op)) {
      found.element = insert.getScalar(), found.dest = insert.getDest(), found.indices = insert.getIndices();
      return found;
    }
    auto atomic = llvm::dyn_cast_or_null<AtomicRmwOp>(op);
    if (!atomic || atomic.getCombiner() != Combiner::Add) return std::nullopt;
    // What has instructions for vectors.
    const mlir::Type type = atomic.getValue().getType();
    if (!type.isF32() && !type.isF16() && !type.isBF16()) return std::nullopt;
    found.element = atomic.getValue(), found.dest = atomic.getDest(), found.indices = atomic.getIndices();
    return found;
  }

  /// Writes of one element each into an iteration argument that nothing else uses.
  llvm::SmallVector<Store> stores() {
    llvm::SmallVector<Store> found;
    const auto yielded = loop_.getYieldedValues();
    for (unsigned i = 0; i < loop_.getInits().size(); ++i) {
      std::optional<Store> one = store_of(yielded[i].getDefiningOp());
      const Value argument = loop_.getRegionIterArgs()[i];
      if (!one || one->write->getBlock() != loop_.getBody() || one->dest != argument) continue;
      if (!argument.hasOneUse() || !yielded[i].hasOneUse()) continue;
      one->number = i;
      one->width = width_of(llvm::cast<RankedTensorType>(one->dest.getType()), one->indices);
      if (one->width > 1) found.push_back(*std::move(one));
    }
    return found;
  }

  void store() {
    llvm::SmallVector<Store> found = stores();
    if (found.empty()) return;
    builder_.setInsertionPoint(loop_);
    llvm::SmallVector<Value> inits(loop_.getInits());
    for (Store& one : found) {
      const auto type = mlir::VectorType::get({trip_}, one.element.getType());
      inits[one.number] = builder_.create<mlir::arith::ConstantOp>(location(), builder_.getZeroAttr(type));
    }
    auto changed =
        builder_.create<scf::ForOp>(location(), loop_.getLowerBound(), loop_.getUpperBound(), loop_.getStep(), inits);
    changed->setDiscardableAttrs(loop_->getDiscardableAttrDictionary());
    // Where the elements go, before the loop's variable becomes the new loop's.
    llvm::SmallVector<Value> results(changed.getResults());
    builder_.setInsertionPointAfter(changed);
    for (Store& one : found) results[one.number] = write(one, changed.getResult(one.number));
    changed.getRegion().takeBody(loop_.getRegion());
    for (Store& one : found) {
      mlir::BlockArgument argument = changed.getRegionIterArgs()[one.number];
      argument.setType(inits[one.number].getType());
      builder_.setInsertionPoint(one.write);
      const Value element =
          builder_.create<mlir::vector::InsertOp>(location(), one.element, argument, changed.getInductionVar());
      one.write->getResult(0).replaceAllUsesWith(element);
      one.write->erase();
    }
    loop_.replaceAllUsesWith(results);
    loop_.erase();
    loop_ = changed;
  }

  /// The tensor with the vector's elements in it.
  Value write(Store& one, Value vector) {
    Value tensor = loop_.getInits()[one.number];
    for (int64_t first = 0; first < trip_; first += one.width) {
      const llvm::SmallVector<Value> at = indices_at(one.indices, first);
      Value part = vector;
      if (one.width < trip_) {
        part = builder_.create<mlir::vector::ShuffleOp>(location(), vector, vector, numbers(first, one.width));
      }
      if (one.is_atomic()) {
        tensor =
            builder_.create<AtomicRmwOp>(location(), tensor.getType(), Combiner::Add, part, tensor, at).getResult();
        continue;
      }
      tensor = builder_.create<mlir::vector::TransferWriteOp>(location(), part, tensor, at, llvm::ArrayRef<bool>{true})
                   .getResult();
    }
    return tensor;
  }

  /// How many elements one access may take, where the last index counts with the loop's variable and the others do not
  /// depend on it; 1 if none.
  int64_t width_of(RankedTensorType tensor, ValueRange indices) {
    const mlir::Type element = tensor.getElementType();
    if (indices.empty() || !element.isIntOrFloat()) return 1;
    int64_t limit = std::min(trip_, options_.max_vector_bytes / stored_bytes(element));
    if (tensor.getRank() > 1 || tensor.getEncoding()) {
      int64_t pitch = tensor.getShape().back();
      if (const auto layout = llvm::dyn_cast_or_null<SharedTileAttr>(tensor.getEncoding())) {
        pitch += layout.getPadding();
        if (layout.getChunk() > 0) limit = std::min(limit, layout.getChunk());
      }
      limit = std::min(limit, pitch & -pitch);  // every row begins at a multiple of the width
    }
    for (const Value index : indices.drop_back()) {
      if (!loop_.isDefinedOutsideOfLoop(index)) return 1;
    }
    return counting_width(indices.back(), limit);
  }

  /// The widest power of two up to the limit from multiples of which an index counts with the loop's variable; 1 if
  /// none.
  int64_t counting_width(Value index, int64_t limit) {
    const IndexExpr position = expression_of(index);
    indexing::IndexingMap map;
    map.ranges = {{0, trip_ - 1}};
    map.dims = position.ranges;
    bool counts = false;
    for (const Value value : position.values) {
      if (value == loop_.getInductionVar()) {
        counts = true;
      } else if (!loop_.isDefinedOutsideOfLoop(value)) {
        return 1;
      }
    }
    if (!counts) return 1;
    const Expr expr = indexing::substitute(position.expr, [&](ExprKind, int number) {
      return position.values[static_cast<unsigned>(number)] == loop_.getInductionVar() ? Expr::range(0)
                                                                                       : Expr::dim(number);
    });
    map.results = {indexing::simplify(expr, map)};
    return indexing::vector_width(map, 0, limit);
  }

  /// The indices where the loop's variable has the value: outside the loop.
  llvm::SmallVector<Value> indices_at(ValueRange indices, int64_t value) {
    llvm::SmallVector<Value> result(indices.drop_back());
    const IndexExpr position = expression_of(indices.back());
    IndexExpr at;
    at.expr = indexing::substitute(position.expr, [&](ExprKind, int number) {
      const Value one = position.values[static_cast<unsigned>(number)];
      if (one == loop_.getInductionVar()) return Expr::constant(value);
      return Expr::dim(at.add(one, position.ranges[static_cast<size_t>(number)]));
    });
    result.push_back(materialize(builder_, location(), std::move(at)));
    return result;
  }

  scf::ForOp loop_;
  mlir::OpBuilder builder_;
  const LoweringOptions& options_;
  int64_t trip_;
};

bool is_vector_loop(scf::ForOp loop) {
  if (!loop->hasAttr("strata.vector")) return false;
  const indexing::Interval lower = value_range(loop.getLowerBound());
  const indexing::Interval upper = value_range(loop.getUpperBound());
  const indexing::Interval step = value_range(loop.getStep());
  return lower.is_point() && lower.lo == 0 && step.is_point() && step.lo == 1 && upper.is_point() && upper.lo > 1 &&
         upper.lo <= kMaxTrip && (upper.lo & (upper.lo - 1)) == 0;
}

/// Index computations that branches of the loop have go before these, where they can be seen to stay the same.
void hoist_indices(scf::ForOp loop) {
  llvm::SmallVector<scf::IfOp> branches;  // inner ones first
  loop.getBody()->walk([&](scf::IfOp branch) { branches.push_back(branch); });
  for (scf::IfOp branch : branches) {
    for (mlir::Region* region : {&branch.getThenRegion(), &branch.getElseRegion()}) {
      if (region->empty()) continue;
      for (mlir::Operation& op : llvm::make_early_inc_range(region->front())) {
        const bool condition = llvm::isa<mlir::arith::CmpIOp, mlir::arith::AndIOp, mlir::arith::OrIOp>(op);
        if (!condition && !llvm::isa<ApplyIndexingOp>(op) && !op.hasTrait<mlir::OpTrait::ConstantLike>()) continue;
        const bool outside = llvm::none_of(
            op.getOperands(), [&](Value operand) { return region->isAncestor(operand.getParentRegion()); });
        if (!outside) continue;
        op.moveBefore(branch);
        if (auto apply = llvm::dyn_cast<ApplyIndexingOp>(op)) forget_conditions(apply);
      }
    }
  }
}

}  // namespace

mlir::LogicalResult vectorize(mlir::ModuleOp module, const LoweringOptions& options) {
  llvm::SmallVector<scf::ForOp> loops;
  module.walk([&](scf::ForOp loop) {
    if (is_vector_loop(loop)) loops.push_back(loop);
  });
  for (scf::ForOp loop : loops) {
    hoist_indices(loop);
    LoopVectorizer(loop, options).run();
  }
  return mlir::success();
}

}  // namespace strata::emitters
