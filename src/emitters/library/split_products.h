// Products of dimensions that were merged, with these apart again.
#pragma once

#include "emitters/library/calls.h"

namespace strata::emitters {

/// Products of the entry that the library may take, some operand of which is an array whose dimensions were transposed
/// and then merged to one of batches, although they lie as one in another order: of these dimensions as they were, so
/// that with_ordered_products may take them in the order in which they lie. Frontends write sums over several indices
/// (einsum) as products with one dimension each of batches, rows, columns and terms.
///
/// Dimensions that an operand merged and the other one did not are apart in the other one too; the result is merged
/// again.
hlo::Module with_split_products(const hlo::Module& module, LibraryUse use);

}  // namespace strata::emitters
