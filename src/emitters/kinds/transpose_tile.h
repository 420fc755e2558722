// Tiles of a permutation in shared memory: which elements a block takes, who reads and writes them, and how they lie.
#pragma once

#include "emitters/kinds/permutation.h"
#include "indexing/memory_access.h"
#include "machine/target.h"

namespace strata::emitters {

/// What a transposing kernel moves.
struct TransposeTraffic {
  std::vector<int64_t> tile_bytes;  ///< of an element of each tile in shared memory
  int64_t widest_read = 1;          ///< bytes of an element read or written at the operand's places
  int64_t widest_written = 1;       ///< … at the result's places
  bool computes = true;             ///< elements are not only moved
  int64_t terms = 1;                ///< of all sums of an element
};

/// Extents of a tile in the permutation's dimensions, and what a thread does at a time: it reads `read_vector` elements
/// that lie together in the operand, and writes `write_vector` that lie together in the result, `pack` times: for
/// elements that are neighbours in the operand and share a word of shared memory.
struct TransposeTile {
  Permutation permutation;
  std::vector<int64_t> extents;
  int threads = 256;
  int64_t read_vector = 1;
  int64_t write_vector = 1;
  int64_t pack = 1;
  int64_t narrowest = 4;  ///< bytes of the narrowest element in shared memory

  int64_t elements() const;
  std::vector<int64_t> grid() const;  ///< tiles in each dimension
  int64_t blocks() const;
};

/// A tile reaches over 128 bytes or more at both sides, so that warps move whole lines, and has about 16 KB: with 8
/// blocks a multiprocessor that is 128 KB in flight. It is smaller where there would be fewer than two blocks a
/// multiprocessor.
TransposeTile choose_transpose_tile(const Permutation& permutation, const TransposeTraffic& traffic,
                                    const Target& target);

/// Where threads read and write. The tile in shared memory has rows and columns.
struct TransposeMaps {
  indexing::IndexingMap read;         ///< (block, thread)[unroll, vector] → index in the operand's dimensions
  indexing::IndexingMap write;        ///< (block, thread)[unroll, pack, vector] → index in the result's dimensions
  std::vector<indexing::Expr> fill;   ///< row and column, over the variables of `read`
  std::vector<indexing::Expr> drain;  ///< row and column, over the variables of `write`
  std::vector<int64_t> shared_shape;  ///< rows and columns
};
TransposeMaps transpose_maps(const TransposeTile& tile);

/// How a tile lies, and what its accesses cost a block.
struct SharedLayout {
  indexing::SharedTile tile;
  std::vector<indexing::Expr> fill, drain;  ///< row and column of the tile, as in TransposeMaps
  /// If not 0, rows that a thread drains together lie apart, in groups of so many: rows that lanes drain at a time then
  /// are neighbours, but for the group, and get different swizzles.
  int64_t row_group = 0;
  indexing::AccessCost fill_cost, drain_cost;  ///< of a sample of accesses

  int64_t conflicts() const { return fill_cost.units - fill_cost.least + drain_cost.units - drain_cost.least; }
  /// "64x64 of 4 bytes, swizzled by 1, 0 bank conflicts in 64 accesses".
  std::string text() const;
};

/// The padding or swizzle with the fewest passes through the banks, counted from the maps on two warps' accesses; the
/// first one without conflicts.
SharedLayout choose_shared_layout(const TransposeTile& tile, const TransposeMaps& maps, int64_t element_bytes);

}  // namespace strata::emitters
