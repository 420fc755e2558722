// Pieces of kernels that several emitters write: indices, comparisons, branches.
#pragma once

#include <mlir/Dialect/Arith/IR/Arith.h>

#include <vector>

#include "emitters/elemental/function_emitter.h"

namespace strata::emitters {

/// The map's result at values of its dimensions, each of which lies in its range.
mlir::Value at(mlir::ImplicitLocOpBuilder& builder, const indexing::Expr& expr,
               const std::vector<indexing::Interval>& ranges, mlir::ValueRange values);
mlir::Value index_constant(mlir::ImplicitLocOpBuilder& builder, int64_t value);
mlir::Value compare(mlir::ImplicitLocOpBuilder& builder, mlir::arith::CmpIPredicate predicate, mlir::Value a,
                    mlir::Value b);
/// What `then` gives where the condition holds, else `otherwise`. No condition always holds.
using Branch = llvm::function_ref<Values(mlir::ImplicitLocOpBuilder&)>;
Values if_holds(mlir::ImplicitLocOpBuilder& builder, mlir::Value condition, mlir::ValueRange otherwise, Branch then);

}  // namespace strata::emitters
