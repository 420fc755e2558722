// Where the arrays in tuples come from.
#pragma once

#include <utility>

#include "hlo/hlo.h"

namespace strata::hlo {

/// The instruction that computes a leaf (leaf_of) of a value, and its number there: through get-tuple-element and
/// tuple.
std::pair<InstructionId, int64_t> source_of(const Computation& computation, InstructionId id, int64_t leaf);

}  // namespace strata::hlo
