// Parts whose sizes no tile divides well, with more rows or terms.
#pragma once

#include <optional>

#include "emitters/lax/parts.h"

namespace strata::emitters {

/// The size that tiles divide well: multiples of 64 as they are; of others the next multiple of the largest power of
/// two, from 16 to 128, that adds a sixth at most; the size itself where there is none.
int64_t filled_size(int64_t size);

/// The same part where what the call computes (`permuted`, `program`) has longer rows, columns or terms of its products
/// (`filled_size`): inputs are filled up with zeros, and the result is cut. Where a maximum or a sum is taken along
/// such a dimension, scores that are more are masked, as a causal mask does it. Nothing where no size changes, where
/// what is more could make a difference, or where the program is then no longer one part.
std::optional<LaxPart> filled(const LaxPart& part);

/// Whether the call has other sizes than the module.
bool is_filled(const LaxPart& part);

}  // namespace strata::emitters
