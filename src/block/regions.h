// Which elements of its arguments a block of a kernel touches, as indexing maps: one language for block graphs,
// predefined operators and emitted kernels. What may run before what follows from it (overlap.h).
#pragma once

#include <vector>

#include "indexing/indexing_map.h"
#include "ir/views.h"

namespace strata {

/// What a block reads or writes of one argument of its operator.
struct AccessRegion {
  int argument = 0;     ///< an operand of the operator, or, where it writes, a result; of emitted kernels: an argument
  bool writes = false;  ///< elements of the region, each once over all blocks and iterations
  int coordinates = 0;  ///< of the block
  /// Dimensions: the coordinates of the block and, where a loop cuts the tensor, the iteration. Range variables: the
  /// elements of the tile, and what is combined. Results: the index in the tensor's own shape.
  indexing::IndexingMap map;
  bool exact = true;  ///< else less is touched: conditions that the map does not have decide

  bool iterates() const { return map.dims.size() > static_cast<size_t>(coordinates); }
};

/// What a block touches in all its iterations: (block coordinates)[iteration, …] → index.
indexing::IndexingMap of_all_iterations(const AccessRegion& region);

/// The tile of an in_iter or out_saver of a block graph: range variable d runs along dimension d of the tile.
/// `argument` is the number of the block graph's input or output.
AccessRegion tile_region(const Graph& block_graph, const Operation& op);

/// Those of all in_iters of a block graph, then of all out_savers.
std::vector<AccessRegion> block_regions(const Graph& block_graph);

/// Those of a predefined operator of a kernel graph: what blocks of a grid read that compute tiles of the result of the
/// given sizes (as many as its dimensions), side by side, the last ones as far as the result goes. From the operator's
/// row in the table. The result's comes last.
std::vector<AccessRegion> predefined_regions(const Graph& kernel_graph, const Operation& op,
                                             const std::vector<int64_t>& tile);
/// The same for blocks of a grid of one dimension that compute `elements` neighbours in row-major order each.
std::vector<AccessRegion> predefined_regions(const Graph& kernel_graph, const Operation& op, int64_t elements);

/// The map to indices of a tensor of a kernel graph as one to indices of the tensor whose memory it is: through the
/// views between them (memory_view). `strided` as there.
struct MemoryRegion {
  TensorId memory;
  indexing::IndexingMap map;
};
MemoryRegion through_views(const Graph& kernel_graph, TensorId id, indexing::IndexingMap map,
                           const std::vector<bool>& strided = {});

/// Where a region begins: the index of the element whose range variables are all at their least.
std::vector<indexing::Expr> first_element(const indexing::IndexingMap& map);

}  // namespace strata
