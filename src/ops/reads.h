// The column `reads` of the operator table for families of operators: which elements of its operands an element of the
// result is computed from, as indexing maps (indexing/indexing_map.h).
#pragma once

#include "ops/op_def.h"

namespace strata {

/// A map from the indices of a tensor of shape `result`, without results yet.
indexing::IndexingMap map_from(const Shape& result);
/// A range variable over [0, extent - 1], added to the map.
indexing::Expr add_range(indexing::IndexingMap& map, int64_t extent);

/// A row of A and a column of B; leading dimensions broadcast.
OperandReads matmul_reads(const Shape& a, const Shape& b);
/// A group of elements along `dim`.
OperandReads reduction_reads(const Shape& operand, const Attributes& attributes);
/// Of operators that move elements along `dim` alone: element `at` there.
indexing::IndexingMap moved_along(const Shape& result, size_t dim, const indexing::Expr& at);
/// Of an operand whose elements lie in the result's row-major order.
indexing::IndexingMap reshape_read(const Shape& from, const Shape& to);

}  // namespace strata
