// Functions that are small or have one caller go into their callers, callees first; private functions that nobody uses
// disappear. Functions that read arrays go in up to a larger size: only in the loops that call them their loads become
// vectors, and equal to those of other loops (the passes over a row that stays in registers). Two calls of one function
// at one index become one as soon as both are in one caller: then that one goes in too, so that what it loads is seen
// beside the caller's own loads.
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/Tensor/IR/Tensor.h>
#include <mlir/IR/IRMapping.h>
#include <mlir/IR/SymbolTable.h>
#include <mlir/Pass/PassManager.h>
#include <mlir/Transforms/Passes.h>

#include "emitters/dialect/dialect.h"
#include "emitters/transforms/index_values.h"
#include "emitters/transforms/passes.h"

namespace strata::emitters {
namespace {

using mlir::Operation;
using mlir::func::FuncOp;

/// The function that a call calls, if it has a body here.
FuncOp callee_of(Operation* op, const mlir::SymbolTable& symbols) {
  if (!llvm::isa<PureCallOp, mlir::func::CallOp>(op)) return {};
  const auto name = llvm::isa<PureCallOp>(op) ? llvm::cast<PureCallOp>(op).getCallee()
                                              : llvm::cast<mlir::func::CallOp>(op).getCallee();
  auto function = symbols.lookup<FuncOp>(name);
  return function && !function.isExternal() ? function : FuncOp();
}

void replace_by_body(Operation* call, FuncOp callee) {
  mlir::OpBuilder builder(call);
  mlir::IRMapping mapping;
  mlir::Block& body = callee.getBody().front();
  mapping.map(body.getArguments(), call->getOperands());
  for (Operation& op : body.without_terminator()) builder.clone(op, mapping);
  llvm::SmallVector<mlir::Value> results;
  for (const mlir::Value value : body.getTerminator()->getOperands()) results.push_back(mapping.lookupOrDefault(value));
  call->replaceAllUsesWith(results);
  call->erase();
}

class Inliner {
 public:
  Inliner(mlir::ModuleOp module, const LoweringOptions& options)
      : module_(module), symbols_(module), options_(options) {
    if (const auto uses = mlir::SymbolTable::getSymbolUses(&module.getBodyRegion())) {
      for (const auto& use : *uses) ++uses_[use.getSymbolRef().getLeafReference()];
    }
  }

  /// Whether anything went into its caller.
  bool run() {
    for (FuncOp function : llvm::to_vector(module_.getOps<FuncOp>())) visit(function);
    remove_unused();
    return changed_;
  }

 private:
  void visit(FuncOp function) {
    if (!visited_.insert(function).second) return;
    llvm::SmallVector<std::pair<Operation*, FuncOp>> calls;
    function.walk([&](Operation* op) {
      if (FuncOp callee = callee_of(op, symbols_)) calls.emplace_back(op, callee);
    });
    for (auto& [call, callee] : calls) {
      visit(callee);
      if (!is_worth_it(callee)) continue;
      replace_by_body(call, callee);
      changed_ = true;
    }
  }

  /// Keeps what public functions reach. One walk: asking for the uses of each function walks the module each time.
  void remove_unused() {
    llvm::DenseSet<Operation*> reached;
    llvm::SmallVector<FuncOp> open;
    const auto reach = [&](FuncOp function) {
      if (function && reached.insert(function).second) open.push_back(function);
    };
    for (FuncOp function : module_.getOps<FuncOp>()) {
      if (!function.isPrivate()) reach(function);
    }
    while (!open.empty()) {
      const auto uses = mlir::SymbolTable::getSymbolUses(open.pop_back_val());
      if (!uses) return;
      for (const auto& use : *uses) reach(symbols_.lookup<FuncOp>(use.getSymbolRef().getLeafReference()));
    }
    for (FuncOp function : llvm::make_early_inc_range(module_.getOps<FuncOp>())) {
      if (!reached.contains(function)) function.erase();
    }
  }

  bool is_worth_it(FuncOp callee) {
    constexpr int kFewPlaces = 4;
    if (!callee.isPrivate() || !callee.getBody().hasOneBlock() || callee->hasAttr("strata.kernel")) return false;
    const int uses = uses_[callee.getSymNameAttr()];
    const bool reads = uses <= kFewPlaces && !callee.getBody().getOps<mlir::tensor::ExtractOp>().empty();
    const int64_t most = reads ? options_.max_inline_reader : options_.max_inline_operations;
    return uses == 1 || count_operations(callee.getBody()) <= most + 1;  // and the return
  }

  mlir::ModuleOp module_;
  mlir::SymbolTable symbols_;
  const LoweringOptions& options_;
  llvm::DenseMap<mlir::StringAttr, int> uses_;
  llvm::DenseSet<Operation*> visited_;
  bool changed_ = false;
};

mlir::LogicalResult merge_equal_operations(mlir::ModuleOp module) {
  mlir::PassManager manager(module.getContext());
  manager.enableVerifier(false);
  manager.addPass(mlir::createCSEPass());
  return manager.run(module);
}

}  // namespace

mlir::LogicalResult inline_functions(mlir::ModuleOp module, const LoweringOptions& options) {
  while (Inliner(module, options).run()) {
    if (mlir::failed(merge_equal_operations(module))) return mlir::failure();
  }
  return mlir::success();
}

}  // namespace strata::emitters
