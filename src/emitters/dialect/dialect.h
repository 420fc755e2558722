// The dialect of the emitters (strata_dialect.td).
#pragma once

#include <mlir/Bytecode/BytecodeOpInterface.h>
#include <mlir/IR/BuiltinTypes.h>
#include <mlir/IR/Dialect.h>
#include <mlir/IR/ImplicitLocOpBuilder.h>
#include <mlir/IR/OpDefinition.h>
#include <mlir/IR/OpImplementation.h>
#include <mlir/IR/SymbolTable.h>
#include <mlir/Interfaces/CallInterfaces.h>
#include <mlir/Interfaces/ControlFlowInterfaces.h>
#include <mlir/Interfaces/InferTypeOpInterface.h>
#include <mlir/Interfaces/SideEffectInterfaces.h>

#include "indexing/indexing_map.h"

namespace strata::indexing {
/// For attributes that hold maps.
inline llvm::hash_code hash_value(const IndexingMap& map) { return llvm::hash_code(map.hash()); }
}  // namespace strata::indexing

namespace strata::emitters {
/// Builds the body of a loop, given the range variables, the map's results and the iteration arguments; returns the
/// next iteration arguments.
using LoopBody = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ImplicitLocOpBuilder&, mlir::ValueRange,
                                                                   mlir::ValueRange, mlir::ValueRange)>;
}  // namespace strata::emitters

// clang-format off: each needs the one before
#include "emitters/dialect/strata_dialect.h.inc"
#include "emitters/dialect/strata_enums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "emitters/dialect/strata_attributes.h.inc"
#define GET_OP_CLASSES
#include "emitters/dialect/strata_operations.h.inc"
// clang-format on

namespace strata::emitters {
/// A loop with its body. The body is built in place: what it needs of the module around it is there.
LoopOp create_loop(mlir::ImplicitLocOpBuilder& builder, const indexing::IndexingMap& map, mlir::ValueRange dims,
                   mlir::ValueRange inits, std::optional<int64_t> vector, LoopBody body);
}  // namespace strata::emitters
