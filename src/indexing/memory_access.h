// What the accesses of warps to memory cost, counted from thread maps (thread_maps.h) before any code exists.
#pragma once

#include "indexing/indexing_map.h"

namespace strata::indexing {

inline constexpr int kWarpSize = 32;
inline constexpr int kSectorBytes = 32;  ///< the least that device memory moves
inline constexpr int kBanks = 32;        ///< of shared memory, of 4 bytes each

/// Sums over accesses of warps, one instruction each.
struct AccessCost {
  int64_t accesses = 0;  ///< of warps with at least one lane in the domain
  int64_t bytes = 0;     ///< that lanes ask for, each address counted once an access
  int64_t units = 0;     ///< sectors moved, or passes through the banks
  int64_t least = 0;     ///< units that the same bytes would take if they lay together

  /// 1 is best.
  double ratio() const { return least == 0 ? 1 : static_cast<double>(units) / static_cast<double>(least); }
};

/// Sectors of device memory that a map's accesses touch. Dimension kBlock is the block, kThread the thread; 32 threads
/// in a row access together one value of each range variable, or where `vector` is the number of a range variable, all
/// its values. `strides` are those of the tensor in memory, in elements of `element_bits`; it starts at a sector. Looks
/// at the first, middle and last block and at most 64 values of the other range variables; runtime variables have their
/// least values.
AccessCost global_access(const IndexingMap& map, const std::vector<int64_t>& strides, int element_bits,
                         int vector = -1);

/// The widest load or store of consecutive elements, a power of two of them up to `limit`, by which the values of a
/// range variable (from 0) can be accessed: the map's one result, a position (linear_form), counts with it from a
/// multiple of the width, and no constraint depends on it. 1 if there is none.
int64_t vector_width(const IndexingMap& positions, int range, int64_t limit);

/// A tile of shared memory and how its elements lie there.
struct SharedTile {
  std::vector<int64_t> shape;
  int element_bytes = 4;
  int64_t padding = 0;  ///< elements after each row of the last dimension
  /// If not 0: a power of two of elements that stay together; the number of such a chunk within its row is combined
  /// with the row's number by exclusive or. The row must have a power of two of chunks.
  int64_t swizzle_chunk = 0;

  /// The place of an element, in elements.
  int64_t address(const std::vector<int64_t>& index) const;
  int64_t bytes() const;
};

/// Passes through the banks that a map's accesses to a shared tile take: as many as the most different words that lanes
/// ask of one bank. Accesses of 8 and 16 bytes a lane go half and quarter warps at a time (CUDA C++ Programming Guide,
/// shared memory). `units - least` is the number of bank conflicts. Sampled as in global_access.
AccessCost shared_access(const IndexingMap& map, const SharedTile& tile, int vector = -1);

}  // namespace strata::indexing
