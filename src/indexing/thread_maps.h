// Which elements of a tensor the threads of a kernel visit.
#pragma once

#include "indexing/indexing_map.h"

namespace strata::indexing {

/// The numbers of the dimensions of a thread map.
inline constexpr int kBlock = 0;   ///< the block of the grid, in [0, blocks - 1]
inline constexpr int kThread = 1;  ///< the thread of the block, in [0, threads - 1]

/// A shape cut into tiles, one a block, with the same number of entries for each dimension. In dimension i a block
/// covers threads[i] · unroll[i] · vector[i] elements in a row: each thread `vector[i]` of them, then its neighbour;
/// and that `unroll[i]` times over. Blocks and threads are numbered with the last dimension fastest. All entries are
/// positive.
struct Tiling {
  std::vector<int64_t> shape;
  std::vector<int64_t> threads;
  std::vector<int64_t> unroll;
  std::vector<int64_t> vector;

  /// Elements of a tile, and tiles, in dimension i.
  int64_t tile(size_t i) const;
  int64_t tiles(size_t i) const;
  int64_t blocks() const;             ///< saturates
  int64_t threads_per_block() const;  ///< saturates
  bool operator==(const Tiling&) const = default;
};

/// A shape taken as one row of elements.
Tiling linear_tiling(const std::vector<int64_t>& shape, int64_t threads, int64_t vector, int64_t unroll);
/// "4x1024 threads 1x128 unroll 1x2 vector 1x4, 12 blocks".
std::string to_string(const Tiling& tiling);

/// (tile in each dimension…, thread)[unroll…, vector…] → index in the tiling's shape; else as thread_map. Here
/// split_interior finds the tiles that lie within the shape in all dimensions.
IndexingMap tile_map(const Tiling& tiling);

/// (block, thread)[unroll…, vector…] → index in the tiling's shape: first one range variable a dimension for the
/// repetitions, then one a dimension for the elements of a vector. Constrained to lie within the shape; not simplified.
IndexingMap thread_map(const Tiling& tiling);
/// The same to the indices of `shape`, which has as many elements as the tiling's own.
IndexingMap thread_map(const Tiling& tiling, const std::vector<int64_t>& shape);

/// The map followed by the row-major position in `shape`: one result, simplified, all variables kept.
IndexingMap linear_form(const IndexingMap& map, const std::vector<int64_t>& shape);

}  // namespace strata::indexing
