// Softmax that does not overflow: the same program with a maximum subtracted before each exponential.
#pragma once

#include <stop_token>

#include "ir/graph.h"

namespace strata {

/// The program with exp(A) replaced by exp(A − reduce_max(A)), for every exponential that has no maximum subtracted yet
/// and whose program stays the same by it: those whose factor cancels, as in softmax. The dimensions of the maximum are
/// the first (innermost, fewest) for which a random test over the field says so; whoever uses the result proves it.
/// Null where there is no such exponential. When `stop` is requested, the exponentials that have not been looked at
/// stay.
GraphPtr stabilised(const GraphPtr& program, uint64_t seed, const std::stop_token& stop = {});

}  // namespace strata
