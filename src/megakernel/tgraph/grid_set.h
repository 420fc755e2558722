// Sets of tasks, as large as whole grids, in one form: equal sets are equal values, and intersections and differences
// take as long as there are pieces, not tasks.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "block/block_set.h"

namespace strata::megakernel {

using Coordinates = std::vector<int64_t>;

/// Blocks of a grid. Along the first coordinate it is cut into intervals, in order, neighbours of which have different
/// blocks along the other coordinates; these are cut in the same way. So there is one form for each set.
class GridSet {
 public:
  struct Part {
    int64_t lo = 0;  ///< the first coordinate lies in [lo, hi]
    int64_t hi = 0;
    std::vector<Part> inner;  ///< along the next coordinate; none along the last
    bool operator==(const Part&) const = default;
  };

  GridSet() = default;
  /// All blocks of a grid; sizes are at least 1.
  static GridSet all(const std::vector<int64_t>& grid);
  static GridSet of(const BlockBox& box);
  static GridSet of(const BlockSet& set);
  /// Blocks by row-major number, sorted, none twice.
  static GridSet of(const std::vector<int64_t>& numbers, const std::vector<int64_t>& grid);

  bool empty() const { return parts_.empty(); }
  int64_t count() const;  ///< saturates
  bool contains(const Coordinates& block) const;
  Coordinates first() const;  ///< of a set that is not empty
  /// The blocks' row-major numbers as intervals [first, last], in order.
  void for_each_run(const std::vector<int64_t>& grid, const std::function<void(int64_t, int64_t)>& visit) const;

  friend GridSet unite(const GridSet& a, const GridSet& b);
  friend GridSet intersect(const GridSet& a, const GridSet& b);
  friend GridSet subtract(const GridSet& a, const GridSet& b);

  const std::vector<Part>& parts() const { return parts_; }
  bool operator==(const GridSet&) const = default;
  uint64_t hash() const;

 private:
  explicit GridSet(std::vector<Part> parts) : parts_(std::move(parts)) {}
  std::vector<Part> parts_;
};

/// The union of many sets.
GridSet unite(std::vector<GridSet> sets);

/// The row-major number of a block, and the reverse.
int64_t number_of(const Coordinates& block, const std::vector<int64_t>& grid);
Coordinates block_of(int64_t number, const std::vector<int64_t>& grid);

/// Tasks of several groups (task_graph.h), none of which has an empty set.
struct TaskSet {
  std::map<int, GridSet> groups;

  bool empty() const { return groups.empty(); }
  int64_t count() const;
  void add(int group, const GridSet& blocks);
  bool operator==(const TaskSet&) const = default;
  uint64_t hash() const;
};
TaskSet unite(const TaskSet& a, const TaskSet& b);
TaskSet subtract(const TaskSet& a, const TaskSet& b);

struct TaskSetHash {
  size_t operator()(const TaskSet& set) const { return set.hash(); }
};

}  // namespace strata::megakernel
