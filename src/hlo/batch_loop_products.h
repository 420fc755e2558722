// Products that a loop computes for one row an iteration, computed for all rows at once.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// The module with smaller loops in its entry. Of a loop of known length (LoopRows)
///   - a product of a row of an array that stays as it is, by what stays as it is (xs[k] · W), is computed for all rows
///     before the loop, which then reads rows of the result;
///   - a product that is only written as a row of a result (ys[k] ← r · W) is computed of all r after the loop, which
///     writes the rows r;
///   - a product, or a sum, that is only added up (W' ← W' + uᵀ · v) is computed of all rows u and v after the loop.
/// So a recurrent layer, and its gradient, have one product in each iteration: that of the state. Sums are in another
/// order. Done where a product has 2^30 operations an iteration at most (larger ones fill a GPU) and the rows together
/// 2^28 bytes at most. Calls are written out (inline_calls).
Module batch_loop_products(const Module& module);

}  // namespace strata::hlo
