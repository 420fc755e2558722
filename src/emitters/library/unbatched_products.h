// Products of batches for which one operand is the same.
#pragma once

#include "emitters/library/calls.h"

namespace strata::emitters {

/// Products of the entry of at least so many terms without those batches that one operand repeats, also where these are
/// a part of a dimension only (repeated_parts.h): they are rows or columns of the other operand, so that
/// with_ordered_products may take them in any order, or as batches again. Frontends write the product of an array of
/// three dimensions by a matrix so, and that of heads of queries which share keys. Beside batches that stay, this is
/// done where it moves less than repeating the operand.
hlo::Module with_unbatched_products(const hlo::Module& module, LibraryUse use, int64_t fewest_terms = 1);

}  // namespace strata::emitters
