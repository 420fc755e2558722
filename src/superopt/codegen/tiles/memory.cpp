#include "superopt/codegen/tiles/memory.h"

#include <algorithm>

#include "superopt/codegen/emit.h"

namespace strata {
namespace {

int64_t stored_rows(const TensorPlan& tile) { return tile.pairs_down ? tile.dims.columns : tile.dims.rows; }

}  // namespace

int64_t row_elements(const TensorPlan& tile) { return tile.pairs_down ? tile.dims.rows : tile.dims.columns; }

int64_t aligned_tile(int64_t bytes) {
  const int64_t alignment = bytes < kTileAlignment ? 128 : kTileAlignment;
  return ceil_div(bytes, alignment) * alignment;
}

Result<int64_t> batch_stride(const Shape& tile, const std::vector<int64_t>& strides) {
  int64_t stride = 0;
  for (size_t d = 0; d + 2 < tile.size(); ++d) {
    if (tile[d] == 1) continue;
    if (stride != 0) return unsupported("a tile of two batch dimensions");
    stride = strides[d];
  }
  return stride;
}

std::string shared_tile_type(const TensorPlan& tile, DType dtype) {
  return fmt::format("strata_device::SharedTile<{}, {}, {}, {}>", storage_type(dtype), tile.dims.batches,
                     stored_rows(tile), row_elements(tile));
}

int64_t shared_tile_bytes(const TensorPlan& tile, DType dtype) {
  const int64_t chunks = ceil_div(row_elements(tile) * size_of(dtype), 16);
  const bool panels = chunks % 8 == 0;
  const bool permuted = (chunks & (chunks - 1)) == 0 || panels;
  int64_t rows = tile.dims.batches * stored_rows(tile);
  if (panels && rows > 1) rows = ceil_div(rows, 8) * 8;
  return aligned_tile(rows * 16 * (permuted || chunks % 2 == 1 ? chunks : chunks + 1));
}

int64_t copy_bytes(const Graph& body, const Operation& op, const TensorPlan& plan, const OperandPlace& place) {
  const TensorId id = op.results[0];
  const int64_t element = size_of(body.type(id).dtype);
  const Shape& tile = body.type(id).shape;
  const Shape& whole = body.type(op.operands[0]).shape;
  const int64_t row = row_elements(plan) * element;
  const auto begins = [&](const std::vector<int64_t>& strides, int64_t bytes) {
    for (size_t d = 0; d < tile.size(); ++d) {
      const int64_t step = strides[d] == 1 ? tile[d] : strides[d];  // places within a row are multiples of a tile
      if (whole[d] > 1 && step * element % bytes != 0) return false;
    }
    return true;
  };
  const auto fits = [&](int64_t bytes) {
    if (row % bytes != 0 || !begins(place.strides, bytes)) return false;
    if (place.front && !begins(place.front->strides, bytes)) return false;
    return std::all_of(place.folds.begin(), place.folds.end(),
                       [&](const Fold& fold) { return fold.stride * element % bytes == 0; });
  };
  for (int64_t bytes : {16, 8, 4}) {
    if (fits(bytes)) return bytes;
  }
  return element;
}

}  // namespace strata
