// Sets of blocks of a grid in closed form: few boxes, whatever the size of the grid.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace strata {

/// The values first + i0 · step0 + i1 · step1 + …, with ik in [0, countk - 1]. Levels go from the smallest step to the
/// largest; each step is more than what the levels before it reach, so that no value occurs twice.
struct StridedRange {
  struct Level {
    int64_t step = 1;
    int64_t count = 1;
    bool operator==(const Level&) const = default;
  };
  int64_t first = 0;
  std::vector<Level> levels;

  int64_t count() const;
  bool contains(int64_t value) const;
  bool operator==(const StridedRange&) const = default;
};

/// A product of ranges, one for each coordinate of the grid.
using BlockBox = std::vector<StridedRange>;

/// Blocks of a grid.
struct BlockSet {
  std::vector<BlockBox> boxes;  ///< without common blocks
  bool exact = true;            ///< else blocks may be too many, never too few
  int64_t steps = 0;            ///< intervals that were looked at to find it

  bool empty() const { return boxes.empty(); }
  int64_t count() const;  ///< saturates
  bool contains(std::span<const int64_t> block) const;
  /// Calls `visit` for every block: takes as long as there are blocks.
  void for_each(const std::function<void(const std::vector<int64_t>&)>& visit) const;
};

}  // namespace strata
