// Sums of products with values that all terms have: the values stand before the sum.
#pragma once

#include <optional>

#include "hlo/hlo.h"

namespace strata::emitters {

/// The module with sums of its entry that differ by what all terms have as one sum Σ x and c·Σ x: c is a broadcast of
/// what does not change along the summed dimensions; negation and division by such a value count, too. In gradients of
/// norms Σ dy, Σ dy·w and Σ dy·w·r are one, and nothing is gone through for each. Only sums of more than 63 terms of
/// f32 and f64 from 0. Terms are rounded less often; what overflows may do so earlier or later.
/// Nothing where there are no such sums.
std::optional<hlo::Module> factor_sums(const hlo::Module& module);

/// The same, and sums whose factors are made of another sum that goes through as much, where their terms are not: c·Σ x
/// can be summed beside that other sum, while Σ c·x waits for it and goes through all of x again. Nothing where no sum
/// waits so.
std::optional<hlo::Module> factor_waiting_sums(const hlo::Module& module);

}  // namespace strata::emitters
