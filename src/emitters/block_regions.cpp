#include "emitters/block_regions.h"

#include <llvm/ADT/TypeSwitch.h>
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/IR/Matchers.h>

#include "emitters/dialect/atomic_fetch.h"
#include "emitters/dialect/dialect.h"
#include "emitters/elemental/index_code.h"
#include "emitters/transforms/index_values.h"
#include "indexing/expr_range.h"
#include "indexing/simplify.h"

namespace strata::emitters {
namespace {

namespace scf = mlir::scf;
using indexing::Constraint;
using indexing::Expr;
using indexing::ExprKind;
using indexing::IndexingMap;
using indexing::Interval;
using mlir::Value;

/// Which tensor a value of type tensor is a later state of.
struct Origin {
  enum class Kind { Argument, Local, Unknown };
  Kind kind = Kind::Unknown;
  size_t argument = 0;
};

Origin origin_of(Value value);

Origin origin_of_argument(mlir::BlockArgument argument) {
  mlir::Operation* owner = argument.getOwner()->getParentOp();
  const unsigned number = argument.getArgNumber();
  if (llvm::isa<mlir::func::FuncOp>(owner)) return {Origin::Kind::Argument, number};
  if (auto loop = llvm::dyn_cast<LoopOp>(owner)) {
    const auto iterated = loop.iteration_arguments();
    const unsigned first = iterated.empty() ? 0 : iterated.front().getArgNumber();
    if (!iterated.empty() && number >= first) return origin_of(loop.getInits()[number - first]);
  }
  if (auto loop = llvm::dyn_cast<scf::ForOp>(owner); loop && number > 0)
    return origin_of(loop.getInitArgs()[number - 1]);
  if (auto loop = llvm::dyn_cast<scf::WhileOp>(owner)) {
    const bool before = argument.getOwner() == loop.getBeforeBody();
    return origin_of(before ? loop.getInits()[number] : loop.getConditionOp().getArgs()[number]);
  }
  return {};
}

Origin origin_of(Value value) {
  if (const auto argument = llvm::dyn_cast<mlir::BlockArgument>(value)) return origin_of_argument(argument);
  const unsigned result = llvm::cast<mlir::OpResult>(value).getResultNumber();
  return llvm::TypeSwitch<mlir::Operation*, Origin>(value.getDefiningOp())
      .Case<mlir::tensor::InsertOp, PredicatedInsertOp, AtomicRmwOp, AtomicFetchOp>(
          [](auto write) { return origin_of(write.getDest()); })
      .Case([&](LoopOp loop) { return origin_of(loop.getInits()[result]); })
      .Case([&](scf::ForOp loop) { return origin_of(loop.getInitArgs()[result]); })
      .Case([&](scf::WhileOp loop) { return origin_of(loop.getConditionOp().getArgs()[result]); })
      .Case([&](scf::IfOp branch) { return origin_of(branch.thenYield().getOperand(result)); })
      .Case([&](SyncThreadsOp sync) { return origin_of(sync.getTensors()[result]); })
      .Case<AllocateSharedOp, mlir::tensor::EmptyOp, mlir::arith::ConstantOp>([](auto) {
        return Origin{Origin::Kind::Local, 0};
      })
      .Default(Origin{});
}

/// The map of one access, from the block to a position in memory.
class Access {
 public:
  Access(mlir::func::FuncOp kernel, const Launch& launch) : kernel_(kernel), threads_(launch.threads) {
    map_.dims = {indexing::below(launch.blocks)};
  }

  AccessRegion run(mlir::Operation* op, Value index, int64_t count) {
    Expr position = index_of(index);
    if (count > 1) position = position + add_range(indexing::below(count));
    for (mlir::Operation* around = op->getParentOp(); around != kernel_; around = around->getParentOp()) {
      if (auto loop = llvm::dyn_cast<LoopOp>(around)) {
        variables_of(loop);
      } else {
        exact_ = false;  // a condition, or a loop that may not run
      }
    }
    map_.results = {position};
    return {0, false, 1, map_, exact_};
  }

 private:
  Expr add_range(const Interval& values) {
    map_.ranges.push_back(values);
    return Expr::range(static_cast<int>(map_.ranges.size()) - 1);
  }

  /// A value that the program computes.
  Expr unknown(Value value) {
    exact_ = false;
    map_.runtime.push_back({static_cast<int64_t>(map_.runtime.size()), 0, {}, value_range(value)});
    return Expr::runtime(static_cast<int>(map_.runtime.size()) - 1);
  }

  Expr index_of(Value value) {
    if (const auto known = known_.find(value); known != known_.end()) return known->second;
    Expr expr = make(value);
    known_.try_emplace(value, expr);
    return expr;
  }

  Expr make(Value value) {
    llvm::APInt constant;
    if (mlir::matchPattern(value, mlir::m_ConstantInt(&constant))) return Expr::constant(constant.getSExtValue());
    if (const auto argument = llvm::dyn_cast<mlir::BlockArgument>(value)) return make(argument);
    auto apply = value.getDefiningOp<ApplyIndexingOp>();
    if (!apply) return unknown(value);
    const auto dims = at(apply.getDims());
    const IndexingMap& map = apply.indexing_map();
    return substitute(map.results[llvm::cast<mlir::OpResult>(value).getResultNumber()],
                      [&](ExprKind, int number) { return dims[static_cast<size_t>(number)]; });
  }

  Expr make(mlir::BlockArgument argument) {
    mlir::Operation* owner = argument.getOwner()->getParentOp();
    if (owner == kernel_) {
      const unsigned arguments = kernel_.getNumArguments();
      if (argument.getArgNumber() == arguments - 2) return Expr::dim(0);
      if (argument.getArgNumber() == arguments - 1) return add_range(indexing::below(threads_));
    }
    if (auto loop = llvm::dyn_cast<LoopOp>(owner)) {
      const auto& variables = variables_of(loop);
      if (argument.getArgNumber() < variables.size()) return variables[argument.getArgNumber()];
    }
    return unknown(argument);
  }

  std::vector<Expr> at(mlir::ValueRange values) {
    std::vector<Expr> exprs;
    for (const Value value : values) exprs.push_back(index_of(value));
    return exprs;
  }

  /// The range variables of a loop, then the results of its map. The loop's domain becomes the access's.
  const std::vector<Expr>& variables_of(LoopOp loop) {
    const auto known = loops_.find(loop);
    if (known != loops_.end()) return known->second;
    const IndexingMap& map = loop.indexing_map();
    const std::vector<Expr> dims = at(loop.getDims());
    std::vector<Expr> variables;
    for (const Interval& range : map.ranges) variables.push_back(add_range(range));
    const auto replace = [&](ExprKind kind, int number) {
      return (kind == ExprKind::Dimension ? dims : variables)[static_cast<size_t>(number)];
    };
    for (size_t d = 0; d < dims.size(); ++d) map_.constraints.push_back({dims[d], map.dims[d]});
    for (const Constraint& constraint : map.constraints) {
      map_.constraints.push_back({substitute(constraint.expr, replace), constraint.bounds});
    }
    std::vector<Expr> all = variables;
    for (const Expr& result : map.results) all.push_back(substitute(result, replace));
    return loops_[loop] = std::move(all);
  }

  mlir::func::FuncOp kernel_;
  int64_t threads_;
  IndexingMap map_;
  bool exact_ = true;
  llvm::DenseMap<Value, Expr> known_;
  std::map<mlir::Operation*, std::vector<Expr>> loops_;
};

class Regions {
 public:
  Regions(mlir::func::FuncOp kernel, const Launch& launch, const std::vector<hlo::Shape>& arguments)
      : kernel_(kernel), launch_(launch), arguments_(arguments) {}

  std::vector<AccessRegion> run() {
    kernel_.walk([&](mlir::Operation* op) {
      llvm::TypeSwitch<mlir::Operation*>(op)
          .Case([&](mlir::tensor::ExtractOp read) { add(op, read.getTensor(), read.getIndices(), {}, false, true); })
          .Case([&](PredicatedExtractOp read) { add(op, read.getSource(), read.getIndices(), {}, false, false); })
          .Case([&](mlir::tensor::InsertOp write) { add(op, write.getDest(), write.getIndices(), {}, true, true); })
          .Case([&](PredicatedInsertOp write) { add(op, write.getDest(), write.getIndices(), {}, true, false); })
          .Case<AtomicRmwOp, AtomicFetchOp>([&](auto update) {
            for (const bool writes : {false, true}) {
              add(op, update.getDest(), update.getIndices(), update.getValue().getType(), writes, true);
            }
          })
          .Case<LoopOp, scf::ForOp, scf::WhileOp, scf::IfOp, scf::YieldOp, scf::ConditionOp, YieldOp, SyncThreadsOp,
                AllocateSharedOp, mlir::func::ReturnOp>([](auto) {})
          .Default([&](mlir::Operation*) {
            for (const Value operand : op->getOperands()) {
              if (llvm::isa<mlir::RankedTensorType>(operand.getType())) touch(origin_of(operand));
            }
          });
    });
    return std::move(regions_);
  }

 private:
  void add(mlir::Operation* op, Value tensor, mlir::ValueRange indices, mlir::Type value, bool writes, bool exact) {
    const Origin origin = origin_of(tensor);
    if (origin.kind == Origin::Kind::Local) return;
    if (origin.kind == Origin::Kind::Unknown || indices.size() != 1) return touch(origin);
    const auto vector = llvm::dyn_cast_if_present<mlir::VectorType>(value);
    AccessRegion region = Access(kernel_, launch_).run(op, indices[0], vector ? vector.getNumElements() : 1);
    const hlo::Shape& shape = arguments_[origin.argument];
    region.argument = static_cast<int>(origin.argument);
    region.writes = writes;
    region.exact = region.exact && exact;
    region.map = indexing::simplify(indexing::compose(region.map, index_at_position(shape)));
    if (region.map.known_empty) return;
    keep(std::move(region));
  }

  /// An access of which nothing is known.
  void touch(const Origin& origin) {
    if (origin.kind == Origin::Kind::Local) return;
    for (size_t n = 0; n < arguments_.size(); ++n) {
      if (origin.kind == Origin::Kind::Argument && origin.argument != n) continue;
      IndexingMap map;
      map.dims = {indexing::below(launch_.blocks)};
      map.ranges = indexing::positions(arguments_[n].dims);
      for (size_t d = 0; d < map.ranges.size(); ++d) map.results.push_back(Expr::range(static_cast<int>(d)));
      for (const bool writes : {false, true}) keep({static_cast<int>(n), writes, 1, map, false});
    }
  }

  void keep(AccessRegion region) {
    for (AccessRegion& other : regions_) {
      if (other.argument != region.argument || other.writes != region.writes || other.map != region.map) continue;
      other.exact = other.exact || region.exact;
      return;
    }
    regions_.push_back(std::move(region));
  }

  mlir::func::FuncOp kernel_;
  const Launch& launch_;
  const std::vector<hlo::Shape>& arguments_;
  std::vector<AccessRegion> regions_;
};

}  // namespace

std::vector<AccessRegion> block_regions(mlir::func::FuncOp kernel, const Launch& launch,
                                        const std::vector<hlo::Shape>& arguments) {
  if (launch.blocks == 0) return {};
  return Regions(kernel, launch, arguments).run();
}

}  // namespace strata::emitters
