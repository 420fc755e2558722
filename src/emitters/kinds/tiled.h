// The tiled core of reductions: which elements a thread accumulates, how the threads that share an output combine what
// they have (lanes of a warp, then shared memory), and which threads have the outputs in the end. Maps only.
#pragma once

#include "indexing/memory_access.h"
#include "indexing/thread_maps.h"

namespace strata::emitters {

/// A loop of a thread over a part of its elements.
struct ElementLoop {
  indexing::IndexingMap points;  ///< as TiledReduction::points
  bool in_shared = true;         ///< what is gone through again may be kept in shared memory; else it is read again
};

/// A tiling of an index space some of whose dimensions are combined.
struct TiledReduction {
  indexing::Tiling tiling;
  std::vector<bool> reduced;  ///< for each dimension
  /// Rows, the last dimension, that begin anywhere in memory: vectors begin at multiples of their length there (in an
  /// array as large as what is reduced, in that order), and what is left of a row at both its ends is edges().
  bool aligned_rows = false;
  /// Of rows, the last of two dimensions: so many repetitions at the beginning are loops that disappear, so that what
  /// they read stays in registers when they go through it again.
  int64_t in_registers = 0;
  bool all_want_results = false;  ///< threads go on with the outputs of their block

  size_t rank() const { return reduced.size(); }
  /// Whether threads that share an output are lanes in a row.
  bool combines_lanes() const { return !reduced.empty() && reduced.back(); }
  int64_t slots() const;    ///< outputs that a thread accumulates
  int64_t outputs() const;  ///< outputs of a block
  int64_t sharing() const;  ///< threads that share an output
  int64_t lanes() const;    ///< of them combined by shuffles at first; 1: none
  int64_t parts() const;    ///< what is left to combine through shared memory; 1: nothing
  /// Whether each thread combines all parts of a block's one output itself: so all have it without another barrier.
  bool combines_everywhere() const;
  /// Else: threads that combine the parts of one output, lanes in a row.
  int64_t combining_lanes() const;
  /// Blocks that share an output.
  int64_t splits() const;

  /// How many repetitions in a row are on their way at once: 8 along a combined last dimension that has a multiple of
  /// that, so that this inner loop can be unrolled, else 1.
  int64_t in_flight(size_t dimension) const;
  /// (block, thread)[repetitions…, those in flight…, vectors…] → (index…, output of the block, slot): the elements that
  /// are accumulated, but for edges(). What lies outside is excluded by constraints.
  indexing::IndexingMap points() const;
  /// The same of the elements that points() leaves out; nothing where it has all.
  std::optional<indexing::IndexingMap> edges() const;
  /// All of these, in the loops that go through them one after the other.
  std::vector<ElementLoop> loops() const;
  /// The place of an element, given its index, among those that loops keep in shared memory, of all reduced dimensions
  /// in row-major order; and how many places there are.
  indexing::Expr place_in_shared(const std::vector<indexing::Expr>& index) const;
  int64_t most_in_shared() const;
  /// The number of the range variable that counts through a vector, if there is one.
  std::optional<int64_t> vector() const;

  /// The tile of shared memory in which the parts meet.
  indexing::SharedTile part_tile(int element_bytes) const;
  /// (block, thread) → the place in that tile of a slot's part; constrained to the threads that have it.
  indexing::IndexingMap part_writes(int64_t slot) const;
  /// (block, thread)[part] → the places that a thread combines.
  indexing::IndexingMap part_reads() const;

  /// (block, thread)[…] → (index…, output of the block, slot) for the outputs that a thread has after all that;
  /// indices of combined dimensions are 0.
  indexing::IndexingMap holders() const;

 private:
  /// The first element that lies at a multiple of the vector's length, of the row that an index is in.
  indexing::Expr first_aligned(const std::vector<indexing::Expr>& index) const;
  /// Places of a row in shared memory: of several, each begins at a multiple of the vector's length.
  int64_t row_in_shared() const;
  /// points() without the last two results, not simplified.
  indexing::IndexingMap elements() const;
};

}  // namespace strata::emitters
