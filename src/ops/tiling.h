// Cutting a tensor into the tiles of a grid and a for-loop: what in_iter, out_saver and a concatenating
// accumulator share (Mirage, section 2: imap, omap, fmap).
#pragma once

#include "ops/elementwise.h"

namespace strata {

/// Number of tiles along each dimension when grid dimension i cuts dimension map[i], and where the tile of
/// a grid point lies among them. The first grid dimension that cuts a dimension is the outermost.
struct Tiling {
  std::vector<int64_t> counts;
  std::vector<int64_t> position;
};

/// Error where the map's length is not the grid's, or an entry is no dimension of `shape`.
Result<std::vector<int64_t>> tile_counts(const Shape& shape, const std::vector<int64_t>& grid,
                                         const std::vector<int64_t>& map, std::string_view map_name);

/// The tile of `point` under a valid map.
Tiling tile_of(size_t rank, const std::vector<int64_t>& grid, const std::vector<int64_t>& map, const GridPoint& point);

/// Copies between a tile and its place in the whole: visit(index in whole, index in tile).
template <class Visit>
void for_each_in_tile(const Shape& whole, const Shape& tile, const std::vector<int64_t>& position, Visit&& visit) {
  const auto strides = row_major_strides(whole);
  int64_t base = 0;
  for (size_t d = 0; d < whole.size(); ++d) base += position[d] * tile[d] * strides[d];
  for_each_index<1>(tile, {strides}, [&](int64_t i, const std::array<int64_t, 1>& at) { visit(base + at[0], i); });
}

}  // namespace strata
