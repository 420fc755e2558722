// Scatters of one update into each row of an array that is computed elementwise, as elementwise operators.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether any computation has a scatter that expand_row_scatters rewrites.
bool has_row_scatters(const Module& module);

/// Each scatter with one update for each row of an array, where all dimensions but one are batching dimensions or of
/// the update's window: the gradient of a choice of one element a row, as of the label's logit in a cross entropy, or
/// `zeros.at[arange(n), place].set(row)`. It becomes a call of a computation: where an element's index is its row's, it
/// is combined with the row's update. An index outside of the row meets no element. The array is one value everywhere
/// or computed elementwise, so that a kernel that reads the result computes it, too, and nothing need be written
/// between. Into an array that is there already a scatter writes a few elements in place; such ones stay. Layouts must
/// be row-major. Error where the module is not verified.
Result<Module> expand_row_scatters(const Module& module);

}  // namespace strata::hlo
