// What is computed of transposed arrays, computed of the arrays as they lie.
#pragma once

#include <optional>

#include "hlo/hlo.h"

namespace strata::emitters {

/// The module with reductions of its entry over arrays as they lie in memory, where they are over transposes, or over
/// elementwise operators on transposes by one permutation, broadcasts and iotas: the maximum of each row of a transpose
/// is that of each column. So neighbouring threads read neighbouring elements, and both directions of one array are
/// computed as it lies. The same holds for transposes of such values back again: these disappear. Beside elementwise
/// operators, values may be moved by concatenates, slices, pads and windows between, and dimensions of one element come
/// and go: what stands between two convolutions is computed in their order. Results of more dimensions than one are
/// transposed after the reduction, where their order differs. Nothing where there is none.
std::optional<hlo::Module> sink_transposes(const hlo::Module& module);

}  // namespace strata::emitters
