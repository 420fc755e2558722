// Scatters of one element into each row of an array that is one value everywhere, as elementwise operators.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether any computation has a scatter that expand_row_scatters rewrites.
bool has_row_scatters(const Module& module);

/// Each scatter into a broadcast of a scalar whose batching dimensions are all dimensions but one, with one update for
/// each of their indices (the gradient of a choice of one element a row, as of the label's logit in a cross entropy),
/// becomes a call of a computation: where an element's index is its row's, it is combined with the row's update. An
/// index outside of the row meets no element. So the array need not be written before it is read. Layouts must be
/// row-major. Error where the module is not verified.
Result<Module> expand_row_scatters(const Module& module);

}  // namespace strata::hlo
