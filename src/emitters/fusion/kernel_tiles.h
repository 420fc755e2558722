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

/// Of each parameter, by place in the kernel: bytes that memory moves for what is read of it by any path, at most those
/// of all of it. 0 of what is no parameter, or is not read.
std::vector<double> bytes_of_parts(const PricedKernel& kernel);

/// Bytes beside those, of a kernel without reductions. Its threads follow the results in memory. Transposes that all of
/// these are computed of at their own places have tiles in shared memory (kinds/transpose.cpp). Of a large array that
/// lies across, each element moves sectors of its own.
double bytes_across_results(const PricedKernel& kernel);

/// The same of a kernel of reductions, results included. Its threads follow memory in one direction: that of the
/// reduced array, or of one that lies across it, whichever moves less.
double bytes_across(const PricedKernel& kernel, const ComputedOnce& together);

}  // namespace strata::emitters
