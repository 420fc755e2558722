// Which tiles of its arrays a kernel reads and writes, and the bytes that memory moves for them.
//
// A fusion is formed with tiles in mind: threads of a kernel take elements that lie together in one array, and what
// they touch of the others follows by the operators' maps (indexing/tile.h), whatever stands between them. So a slice
// of a converted table, a transpose of a transpose and a reshape between two of them need no rules of their own.
#pragma once

#include <vector>

#include "emitters/fusion/priced_kernel.h"

namespace strata::emitters {

inline constexpr double kSectorBytes = 32;  ///< that caches move at least

TileTraits tile_traits(const hlo::Computation& computation, hlo::InstructionId instruction,
                       const std::vector<indexing::Read>& reads);

/// What memory moves for a kernel beside its results.
struct TileBytes {
  /// Of each parameter, by place in the kernel: of what results need of it, by any path, at most all of it. Else 0.
  std::vector<double> parts;
  /// Beside these, where warps take elements that lie apart, each of which moves sectors of its own.
  ///
  /// Threads of a kernel without reductions follow its results; of the parameters only those count that are not much
  /// smaller. Transposes at the places of the results have tiles in shared memory where all permute alike
  /// (kinds/transpose.cpp). Threads of a reduction follow one array, and others that lie across it count, results
  /// among them.
  double across = 0;
};
TileBytes tile_bytes(const PricedKernel& kernel, const ComputedOnce& together);

}  // namespace strata::emitters
