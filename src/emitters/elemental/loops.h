// Loops over indexing maps, built so that their bodies can call functions of the module.
#pragma once

#include <optional>

#include "emitters/dialect/dialect.h"

namespace strata::emitters {

/// A strata.loop as LoopOp's builder makes it, but the body is built when the loop is part of the module: what declares
/// functions there (conversions of small floats, library functions) finds it.
LoopOp create_loop(mlir::ImplicitLocOpBuilder& builder, const indexing::IndexingMap& map, mlir::ValueRange dims,
                   mlir::ValueRange inits, std::optional<int64_t> vector, LoopBody body);

}  // namespace strata::emitters
