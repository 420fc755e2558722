// How the code of a kernel touches its arguments: what block_regions.h and overwrites.h look at.
#pragma once

#include <mlir/Dialect/Func/IR/FuncOps.h>

#include <map>
#include <vector>

#include "emitters/dialect/dialect.h"
#include "emitters/kinds/decision.h"
#include "indexing/indexing_map.h"

namespace strata::emitters {

/// Which tensor a value of type tensor is a later state of.
struct Origin {
  enum class Kind { Argument, Local, Unknown };
  Kind kind = Kind::Unknown;
  size_t argument = 0;
};
Origin origin_of(mlir::Value value);

/// Indices of a kernel as expressions of the block, dimension 0, and of range variables: the thread, and those of
/// loops. Those of one object have the same variables.
class IndexContext {
 public:
  IndexContext(mlir::func::FuncOp kernel, const Launch& launch);

  indexing::Expr index_of(mlir::Value value);
  indexing::Expr thread();
  indexing::Expr add_range(const indexing::Interval& values);
  /// The domains of the loops around an operation become the map's. Whether nothing but these decides how often it
  /// runs, and no index so far is a value that the program computes.
  bool enclose(mlir::Operation* op);
  /// Without results: what the variables are, and the loops' domains.
  const indexing::IndexingMap& domain() const { return map_; }

 private:
  indexing::Expr unknown(mlir::Value value);
  indexing::Expr make(mlir::Value value);
  indexing::Expr make(mlir::BlockArgument argument);
  std::vector<indexing::Expr> at(mlir::ValueRange values);
  const std::vector<indexing::Expr>& variables_of(LoopOp loop);

  mlir::func::FuncOp kernel_;
  int64_t threads_;
  indexing::IndexingMap map_;
  bool exact_ = true;
  llvm::DenseMap<mlir::Value, indexing::Expr> known_;
  std::map<mlir::Operation*, std::vector<indexing::Expr>> loops_;
};

}  // namespace strata::emitters
