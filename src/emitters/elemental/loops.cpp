#include "emitters/elemental/loops.h"

namespace strata::emitters {

LoopOp create_loop(mlir::ImplicitLocOpBuilder& builder, const indexing::IndexingMap& map, mlir::ValueRange dims,
                   mlir::ValueRange inits, std::optional<int64_t> vector, LoopBody body) {
  const auto unchanged = [](mlir::ImplicitLocOpBuilder&, mlir::ValueRange, mlir::ValueRange, mlir::ValueRange carried) {
    return llvm::SmallVector<mlir::Value>(carried);
  };
  auto loop = builder.create<LoopOp>(map, dims, inits, vector, unchanged);
  mlir::Operation* terminator = loop.getBody().front().getTerminator();
  mlir::ImplicitLocOpBuilder inside(loop.getLoc(), terminator);
  const llvm::SmallVector<mlir::Value> next =
      body(inside, loop.range_variables(), loop.map_results(), loop.iteration_arguments());
  terminator->setOperands(next);
  return loop;
}

}  // namespace strata::emitters
