// Reductions in two steps, before kernels are formed: where one would run in few blocks, lie in memory in short pieces,
// or go through its array twice.
#pragma once

#include "hlo/hlo.h"
#include "machine/target.h"

namespace strata::emitters {

/// The module with some reductions of its entry by one operator (sums, products, minima, maxima of floats, as wide as
/// they are added up) as two, of parts and of these parts' results:
/// - columns (the innermost dimension in memory is kept) that would be so few blocks' work that these do not reach the
///   memory's bandwidth: their rows in parts;
/// - dimensions that do not lie together, as in [batch, positions, groups, channels] over positions and channels:
///   columns over positions first, of which the short rows of channels are what is left; or the innermost first, if it
///   is long and there are few results.
/// - sums Σ(x - b)² beside Σx, where b is made of the latter, as a variance is of the mean (then x would be read
/// twice).
///   Of parts of n elements that stay in registers, with m the mean of a part as it is rounded,
///     Σ(x - b)² = Σ over parts of Σ(x - m)² + 2(m - b)Σ(x - m) + n(m - b)²,
///   which holds for any m and b. Terms do not cancel: the middle one is what the rounding of m left over, and the
///   others are not negative. So the relative error is that of going through x twice, however far the mean lies from 0.
/// - sums Σexp(x - b) beside the maximum of x, where b is made of the latter, of rows that a block cannot keep: of
///   parts that stay in registers, with m the maximum of a part (0 where it is not finite),
///     Σexp(x - b) = Σ over parts of exp(m - b)·Σexp(x - m), without parts whose sum is 0.
/// Columns and dimensions that do not lie together stay whole where a kernel reads all in the time of a launch or less.
/// Reductions over single elements become elementwise operators.
hlo::Module split_reductions(const hlo::Module& module, const Target& target);

}  // namespace strata::emitters
