// Maxima in programs that are compared over finite fields, where numbers have no order. docs/verification.md has the
// argument.
#pragma once

#include <stop_token>

#include "ir/graph.h"
#include "support/error.h"

namespace strata {

/// Whether no output of either program depends on what its maxima are, as in softmax, where exp(x − m) cancels for any
/// m: by tests in which a random symmetric function stands for max. Programs of the same inputs, of small shapes.
Result<bool> maxima_cancel(const Graph& reference, const Graph& candidate, const FieldPrimes& primes, uint64_t seed,
                           const std::stop_token& stop);

/// How many different elements the maxima of the two programs are taken of, not counted beyond 10,000; programs as
/// above.
Result<size_t> compared_elements(const Graph& reference, const Graph& candidate, const FieldPrimes& primes,
                                 uint64_t seed, const std::stop_token& stop);

}  // namespace strata
