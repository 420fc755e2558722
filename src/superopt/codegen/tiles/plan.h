// Where the tensors of a block graph with matrix products live, and how they lie there, when its work is done in the
// registers of warps (tiles.h): the layout pass of Mirage (OSDI'25, section 6) for that kind of block.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "machine/target.h"
#include "superopt/codegen/block_code.h"

namespace strata {

/// A tensor's last two dimensions and the product of those before them; missing ones are 1.
struct TileDims {
  int64_t batches = 1;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t elements() const { return batches * rows * columns; }
  friend bool operator==(const TileDims&, const TileDims&) = default;
};
TileDims tile_dims(const Shape& shape);

/// A dimension of the block's iteration space, which dimensions of its tensors share; −1 for dimensions of size 1.
using Axis = int;
constexpr Axis kNoAxis = -1;
/// Positions of `axes` below.
enum TilePosition { kBatchPosition, kRowPosition, kColumnPosition, kTilePositions };

struct TensorPlan {
  TileDims dims;  ///< of the whole block tensor
  std::array<Axis, kTilePositions> axes{kNoAxis, kNoAxis, kNoAxis};
  bool loaded = false;      ///< a tile that in_iter brings to shared memory
  bool once = false;        ///< loaded, and not cut by the loop
  bool transposed = false;  ///< in registers: pairs of neighbours lie along the rows
  bool pairs_down = false;  ///< in shared memory, as in device memory: neighbours lie along the rows
};

struct TilePlan {
  std::vector<TensorPlan> tensors;  ///< by tensor of the block graph
  DType operand = DType::F16;       ///< what products multiply
  Axis row_axis = kNoAxis;          ///< which warps of a group divide; row_warps is 1 where there is none
  std::vector<TensorId> wide;       ///< results of products that four warps compute together
  /// What the groups divide after the loop: group g has part g / stride mod parts of each axis. Groups past `sharers`
  /// have no part; the first has all where there are no axes.
  struct Share {
    Axis axis;
    int64_t parts;
    int64_t stride;
  };
  std::vector<Share> shares;
  int64_t sharers = 1;
  LayoutSearch layouts;
  int64_t layout_cost = 0;  ///< of the best: products on tensor cores per iteration, of one warp
};

/// Sizes of a tensor that one warp holds: `dims` divided along the row axis, and along the after axis where `after`.
TileDims warp_dims(const TilePlan& plan, const TensorPlan& tensor, const BlockSchedule& schedule, bool after);

/// The plan with the fewest tensor core instructions, then the fewest scattered stores: layouts are tried exhaustively,
/// one choice a group of tensors that must agree. `strides` are those of the operands in device memory. Error
/// (Unsupported), with the reason, where the block graph has no such plan: no product, operands that are not 16 bits
/// wide, sizes that fill no fragment, a tensor needed in both layouts, or operators that move elements.
Result<TilePlan> plan_tiles(const Graph& body, const OperandPlaces& strides, const BlockSchedule& schedule);

}  // namespace strata
