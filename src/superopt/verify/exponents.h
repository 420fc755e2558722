// Whether the exponents in each output entry of two programs are jointly uniform: the condition of the sharp bound for
// programs with exponentials (docs/verification.md).
#pragma once

#include <stop_token>

#include "ir/graph.h"

namespace strata {

/// Looks for an input in which all exponents are affine (by their degrees, at full shape) and whose Jacobian over Z_q,
/// of the distinct exponents that an output entry depends on, has full rank for every entry (by execution at a random
/// point, at shrunk shapes). False where none is found, or where shapes cannot be shrunk enough to look.
/// With `maxima_cancel` (maxima.h) maxima are 0 meanwhile; with `free` what is outside the Lax fragment is a random
/// function (lax.h), of which no exponent may depend on that input. False when stopped.
bool exponents_independent(const Graph& reference, const Graph& candidate, const FieldPrimes& primes, uint64_t seed,
                           bool maxima_cancel = false, bool free = false, const std::stop_token& stop = {});

}  // namespace strata
