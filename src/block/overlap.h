// Which blocks of two kernels touch common elements of a tensor, in closed form: what handovers and the dependencies of
// tasks are computed from. Nothing here takes longer because a grid is larger.
//
// Both maps take (coordinates of a block)[elements of its region] to an index. The tensor's index is cut into digits
// (its dimensions, or dimensions of another shape with as many elements, as views make them) so that along each digit a
// block's region is an interval: it starts where a sum of multiples of digits of the block's coordinates says, and is
// as long for all blocks. Two blocks overlap where the intervals meet along all digits.
#pragma once

#include <optional>
#include <string>

#include "block/grid_digits.h"

namespace strata {

/// A block's region along one digit of a tensor's index: [first, first + length - 1] within `clip`.
struct RegionAxis {
  indexing::Expr first;  ///< over the coordinates of the block
  int64_t length = 1;
  indexing::Interval clip = indexing::kEverything;
  bool contiguous = true;  ///< else elements between the first and the last are left out
};

/// The regions of all blocks of a grid, along digits of a tensor's index.
struct GridRegions {
  std::vector<int64_t> grid;
  std::vector<indexing::Interval> blocks;  ///< coordinates of blocks that touch anything; others have no region
  std::vector<RegionAxis> axes;
  bool exact = true;  ///< else regions are smaller than said here
  bool empty = false;
};

/// The blocks of a producer's grid and of a consumer's that touch common elements.
class BlockOverlap {
 public:
  /// `write` and `read` take coordinates of blocks, all from 0, to indices in a tensor of shape `tensor`; iterations
  /// are range variables. Runtime variables take their whole ranges.
  BlockOverlap(const indexing::IndexingMap& write, const indexing::IndexingMap& read,
               const std::vector<int64_t>& tensor);

  /// Whether pairs that are said to overlap do. Else they may not, but all pairs that do overlap are said to.
  bool exact() const { return exact_; }
  /// Whether no two blocks overlap.
  bool empty() const { return empty_; }

  bool overlaps(std::span<const int64_t> producer, std::span<const int64_t> consumer) const;
  /// Blocks of the producer that overlap a block of the consumer, and the reverse.
  BlockSet producers_of(std::span<const int64_t> consumer) const;
  BlockSet consumers_of(std::span<const int64_t> producer) const;

  /// The number of pairs that overlap (saturates); nothing where there is no closed form for it.
  std::optional<int64_t> count() const;
  /// Whether every block of each grid is known to overlap exactly one of the other.
  bool is_one_to_one() const;
  /// Whether every block is known to overlap (as overlaps() says) every block of the other grid.
  bool is_all_to_all() const;

  /// Whether blocks overlap only if their coordinates `producer` and `consumer` lie in parts of the same number, where
  /// these are cut into parts of this many neighbours. False also where it is not known.
  bool keeps_parts(size_t producer, int64_t producer_part, size_t consumer, int64_t consumer_part) const;

  const GridRegions& producer() const { return producer_.regions; }
  const GridRegions& consumer() const { return consumer_.regions; }

 private:
  struct Side {
    GridRegions regions;
    GridDigits digits;  ///< of the first elements along the axes, then of the coordinates
  };
  BlockOverlap(std::pair<GridRegions, GridRegions> regions);
  static Side side_of(GridRegions regions);
  BlockSet partners(const Side& side, const Side& others, std::span<const int64_t> block) const;

  Side producer_, consumer_;
  bool exact_ = true;
  bool empty_ = false;
};

/// The regions of two maps along common digits of the tensor's index: the most that lets both be exact.
std::pair<GridRegions, GridRegions> common_regions(const indexing::IndexingMap& write,
                                                   const indexing::IndexingMap& read,
                                                   const std::vector<int64_t>& tensor);

}  // namespace strata
