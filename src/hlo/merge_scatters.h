// Scatters in turn that combine the same updates at other places, as one.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// The module with one scatter in the place of each chain of scatters of the entry,
///
///     scatter(scatter(x, i, u), j, u)  →  scatter(x, concatenate(i, j), repeat(u)),
///
/// whose first results nothing else reads, whose combiner gives the same in any order (a minimum, a maximum, bitwise
/// operators, integers' sums and products), and whose updates are one array, or one scalar everywhere. What happens at
/// both ends of a graph's edges is written so: the least label of two neighbours, or their degrees. Two scatters are
/// two kernels, the second one of which waits for all updates of the first one. Scatters that know their indices to be
/// sorted or unique stay, since those of two together are neither.
Module merge_scatters(const Module& module);

}  // namespace strata::hlo
