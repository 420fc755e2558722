#include "emitters/kernel_accesses.h"

#include <llvm/ADT/TypeSwitch.h>
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/IR/Matchers.h>

#include "emitters/dialect/atomic_fetch.h"
#include "emitters/transforms/index_values.h"

namespace strata::emitters {

namespace scf = mlir::scf;
using indexing::Constraint;
using indexing::Expr;
using indexing::ExprKind;
using indexing::IndexingMap;
using indexing::Interval;
using mlir::Value;

namespace {

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

}  // namespace

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

IndexContext::IndexContext(mlir::func::FuncOp kernel, const Launch& launch)
    : kernel_(kernel), threads_(launch.threads) {
  map_.dims = {indexing::below(launch.blocks)};
}

bool IndexContext::enclose(mlir::Operation* op) {
  for (mlir::Operation* around = op->getParentOp(); around != kernel_; around = around->getParentOp()) {
    if (auto loop = llvm::dyn_cast<LoopOp>(around)) {
      variables_of(loop);
    } else {
      exact_ = false;  // a condition, or a loop that may not run
    }
  }
  return exact_;
}

Expr IndexContext::thread() { return index_of(kernel_.getArgument(kernel_.getNumArguments() - 1)); }

Expr IndexContext::add_range(const Interval& values) {
  map_.ranges.push_back(values);
  return Expr::range(static_cast<int>(map_.ranges.size()) - 1);
}

/// A value that the program computes.
Expr IndexContext::unknown(Value value) {
  exact_ = false;
  map_.runtime.push_back({static_cast<int64_t>(map_.runtime.size()), 0, {}, value_range(value)});
  return Expr::runtime(static_cast<int>(map_.runtime.size()) - 1);
}

Expr IndexContext::index_of(Value value) {
  if (const auto known = known_.find(value); known != known_.end()) return known->second;
  Expr expr = make(value);
  known_.try_emplace(value, expr);
  return expr;
}

Expr IndexContext::make(Value value) {
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

Expr IndexContext::make(mlir::BlockArgument argument) {
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

std::vector<Expr> IndexContext::at(mlir::ValueRange values) {
  std::vector<Expr> exprs;
  for (const Value value : values) exprs.push_back(index_of(value));
  return exprs;
}

/// The range variables of a loop, then the results of its map. The loop's domain becomes the access's.
const std::vector<Expr>& IndexContext::variables_of(LoopOp loop) {
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

}  // namespace strata::emitters
