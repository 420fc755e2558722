// Online softmax with one maximum: which reference values of accum_rescale others may stand for.
#pragma once

#include "ir/graph.h"

namespace strata {

/// Whether the block graph computes the same if `reference`, the second operand of an accum_rescale, is replaced by the
/// largest of it up to the iteration. So it is if the reference is used as exp(x − reference) alone, whatever is
/// added up is proportional to that, and the rest are maxima of the reference itself: the reference value cancels, like
/// every other. The accumulators need not rescale what they add then.
bool runs_along(const Graph& body, TensorId reference);

}  // namespace strata
