// Two kernels in one launch: a block graph and the one after it that reads its results (a split reduction and what
// combines its parts). The program's graph stays as it is; blocks of the first count their arrivals, and run blocks of
// the second when what these read is there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "indexing/indexing_map.h"
#include "ir/graph.h"
#include "superopt/codegen/block_code.h"

namespace strata {

/// Which blocks of the first kernel need to arrive before which blocks of the second: those of the same group. A group
/// is a box of both grids; groups lie along some dimensions of both.
struct HandoverGroups {
  struct Axis {
    int64_t size = 1;   ///< of the grid
    int64_t chunk = 1;  ///< neighbours along it that are in one group
    int group = -1;     ///< place in `along`; -1 where all are in one group
  };
  std::vector<Axis> from, to;  ///< dimensions of the grids
  std::vector<int64_t> along;  ///< how many groups lie along each of their dimensions
  int64_t producers = 1;       ///< blocks of the first in a group
  int64_t consumers = 1;       ///< blocks of the second in a group
  int64_t count() const;       ///< of groups

  /// As C++ expressions of block_x, block_y, block_z of the first kernel: the number of the group, that of the block in
  /// it.
  std::string group() const;
  std::string rank() const;
  /// Coordinates of block `n` (an expression) of the group in the second kernel, as arguments; three of them.
  std::string consumer(const std::string& n) const;

  /// From the coordinates of a block of the first: its group's counter, one in so many elements; and the coordinates of
  /// all blocks of the second that are in its group.
  indexing::IndexingMap counter(int64_t stride) const;
  indexing::IndexingMap consumers_of() const;
};

/// Groups of blocks of operator `from` and of the block graph `to` that reads its results, as small as boxes allow.
/// Nothing where `to` reads none, or reads them as a view.
std::optional<HandoverGroups> handover_groups(const Graph& graph, const Operation& from, const Operation& to);

}  // namespace strata
