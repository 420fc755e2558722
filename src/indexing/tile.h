// Tiles: evenly spaced elements of a tensor by offset, size and stride in each dimension, and what maps make of them.
//
// What a fusion reads of an array for a tile of its result follows from the maps of its operators: a transpose's tile
// lies across, a slice's has other strides, a reshape's is a box only of tiles that fit, and a window's overlaps the
// next one. So a cost model sees how a fusion would touch memory before there is any code. XLA's documentation of its
// emitters ("Tiling") describes functions over such tiles.
#pragma once

#include <optional>
#include <vector>

#include "indexing/indexing_map.h"

namespace strata::indexing {

/// Positions along a dimension: `runs` times `size` of them, `stride` apart. A run begins at `offset` plus an unknown
/// multiple of `multiple`: at `offset` itself where that is 0. Counts saturate.
struct TileDim {
  int64_t runs = 1;
  int64_t size = 1;    ///< 0 of nothing
  int64_t stride = 1;  ///< positive
  int64_t offset = 0;
  int64_t multiple = 0;

  int64_t count() const { return saturating_mul(runs, size); }
  auto operator<=>(const TileDim&) const = default;
};

/// By dimension. Tiles stand for all that differ by multiples in their offsets.
using Tile = std::vector<TileDim>;

/// All of a shape.
Tile whole_tile(const std::vector<int64_t>& shape);
/// The tile of at least `elements` (or of all there are) that lie together in memory: all of the innermost dimensions
/// and as much of the next one as it takes. `minor_to_major`: the dimensions, the innermost in memory first.
Tile tile_along_memory(const std::vector<int64_t>& shape, const std::vector<int64_t>& minor_to_major, int64_t elements);

double elements_of(const Tile& tile);

/// A tile that holds all that a map makes of a tile of its dimensions, for all values of the range variables; of a map
/// with an empty domain, an empty one. It holds more where variables stand in several results, where a quotient's
/// divisor does not divide what a tile spans, and where constraints are on more than a result. Wherever the variables
/// differ on which a runtime value depends, it may be another one: so many runs has the first result with one.
/// std::nullopt where results are products of variables, or have divisors that are not constant and positive, and for
/// more than 64 variables.
std::optional<Tile> image_of(const Tile& tile, const IndexingMap& map);

/// The tile of what is in either of two, where these are boxes without gaps at known offsets and their union is one.
std::optional<Tile> union_of(const Tile& a, const Tile& b);

/// Bytes that memory moves for a tile of an array with these strides (in elements, by dimension), by units of
/// `unit_bytes`, a power of two: 32 of sectors. Where a gap is smaller than a unit, so that each unit has elements, all
/// of it moves. The mean over the places at which the tile's contiguous pieces may begin, by their alignment.
double moved_bytes(const Tile& tile, const std::vector<int64_t>& strides, int64_t element_bytes, int64_t unit_bytes);

/// How many times the units that its elements would fill if they lay together a tile touches, where each of its
/// contiguous pieces begins at a unit: 1 at best.
double times_apart(const Tile& tile, const std::vector<int64_t>& strides, int64_t element_bytes, int64_t unit_bytes);

/// "[4, 32:2 from 3, 8 runs of 16]".
std::string to_string(const Tile& tile);

}  // namespace strata::indexing
