// Bytes that memory moves for a kernel beside those of its arrays.
#pragma once

#include "emitters/fusion/priced_kernel.h"

namespace strata::emitters {

inline constexpr double kSectorBytes = 32;  ///< that caches move at least

/// Of a kernel of reductions. Its threads follow memory in one direction. An array that lies across it, after a
/// transpose, moves a sector for each element: the smaller one of what lies along the reduced array and what lies
/// across it. Small arrays stay in caches.
double bytes_across(const PricedKernel& kernel, const ComputedOnce& together);

/// Of a kernel without reductions. Its threads follow the results in memory. Transposes that all of these are computed
/// of at their own places have tiles in shared memory (kinds/transpose.cpp). Of a large array after another one each
/// element moves sectors of its own. `read`: how often elements of each instruction are.
double bytes_across_results(const PricedKernel& kernel, const indexing::Evaluations& read);

/// For each element of a gather or a slice: the sectors in which a row of what is taken lies.
double bytes_of_part(const hlo::Computation& computation, const hlo::Instruction& it);

/// For each element that is read of a parameter in part.
double bytes_of_read(const PricedKernel& kernel, hlo::InstructionId parameter);

}  // namespace strata::emitters
