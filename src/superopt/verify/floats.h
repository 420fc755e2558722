// The real meaning of programs, in float64, where the finite field cannot tell: a difference after a square root of a
// non-residue may be the field's and not the program's.
#pragma once

#include <stop_token>

#include "interpret/interpret.h"

namespace strata {

/// Of the arguments: standard normal entries, those of matrices divided by the square root of the last dimension,
/// rounded to the types.
std::vector<Tensor<double>> random_inputs(const Graph& graph, uint64_t seed);

/// Largest difference relative to the largest magnitude of the expected tensor; infinite where `found` is not finite
/// and `expected` is.
double relative_error(const std::vector<Tensor<double>>& expected, const std::vector<Tensor<double>>& found);

/// Whether two programs with one interface differ over the reals: on one random input obviously, or on three by more
/// than float64 can explain. Error (Interrupted) when stopped.
Result<bool> differ_over_reals(const Graph& reference, const Graph& candidate, uint64_t seed,
                               const std::stop_token& stop = {});

}  // namespace strata
