// Indices in MLIR: indexing maps applied to values.
#pragma once

#include <mlir/IR/ImplicitLocOpBuilder.h>

#include "hlo/shape.h"
#include "indexing/indexing_map.h"

namespace strata::emitters {

/// The values of a map's variables.
struct MapValues {
  llvm::SmallVector<mlir::Value> dims, ranges, runtime;
};

/// The map over dimensions only: its dimensions, then range, then runtime variables; without constraints.
indexing::IndexingMap as_dimensions(const indexing::IndexingMap& map);

/// The map's results at the values, which must lie in its domain.
llvm::SmallVector<mlir::Value> apply_map(mlir::ImplicitLocOpBuilder& builder, const indexing::IndexingMap& map,
                                         const MapValues& values);

/// Whether all constraints hold at the values: an i1. The constraints' expressions are over the map's variables.
mlir::Value constraints_hold(mlir::ImplicitLocOpBuilder& builder, const indexing::IndexingMap& map,
                             const std::vector<indexing::Constraint>& constraints, const MapValues& values);

/// A start index within the range, as gather and dynamic-slice clamp it: an index.
mlir::Value clamped_index(mlir::ImplicitLocOpBuilder& builder, mlir::Value integer, hlo::ElementType type,
                          const indexing::Interval& range);

/// (an index into the array) → (the position of the element in memory), for the shape's layout.
indexing::IndexingMap position_map(const hlo::Shape& shape);

/// (position in memory) → (an index into the array).
indexing::IndexingMap index_at_position(const hlo::Shape& shape);

}  // namespace strata::emitters
