// The order of a product's rows, columns and batches.
#pragma once

#include "emitters/library/calls.h"
#include "machine/target.h"

namespace strata::emitters {

/// Products of the entry whose operands do not lie as the library reads them, or whose results are read in another
/// order than HLO's (batches, rows, columns), in the order that takes the least time by the model:
///
/// - batches, rows and columns in any order, and the operands exchanged, so that the result lies as what follows reads
///   it, or an operand as it is in memory;
/// - of products without batches, the outer dimensions of one operand as batches, for which the other operand is one
///   and the same: rows that lie in two places are no matrix, but several.
///
/// A result is followed through transposes, elementwise operators with numbers, and products that read it. Transposes
/// that come to nothing disappear. Products of vectors and those that a kernel computes stay.
hlo::Module with_ordered_products(const hlo::Module& module, const Target& target, LibraryUse use);

}  // namespace strata::emitters
