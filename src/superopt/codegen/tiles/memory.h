// Tiles in shared memory, and how they come there.
#pragma once

#include "superopt/codegen/tiles/plan.h"

namespace strata {

/// Of a tile that tensor cores read themselves; others need 16.
constexpr int64_t kTileAlignment = 1024;

/// Elements of the tile's contiguous dimension, as it is stored.
int64_t row_elements(const TensorPlan& tile);

/// Bytes, rounded up to where the next tile may begin.
int64_t aligned_tile(int64_t bytes);

/// Stride of the dimensions before the last two. Error (Unsupported) where two of them have more than one element.
Result<int64_t> batch_stride(const Shape& tile, const std::vector<int64_t>& strides);

/// The C++ type of the device library.
std::string shared_tile_type(const TensorPlan& tile, DType dtype);
int64_t shared_tile_bytes(const TensorPlan& tile, DType dtype);

/// Bytes of one copy of an in_iter: the most that divide rows, strides and every place where a tile can begin.
/// `place` is that of its operand in device memory.
int64_t copy_bytes(const Graph& body, const Operation& op, const TensorPlan& tile, const OperandPlace& place);

}  // namespace strata
