// Where a group of instructions reads the results of its reductions.
#pragma once

#include "emitters/fusion/group.h"
#include "hlo/hlo.h"

namespace strata::emitters {

/// Whether a group reads each result of its reductions in the result's own row alone, as a softmax does: then threads
/// that have a row in hand compute each reduction once. A product that reads sums of another one reads those of other
/// rows, too, each of which is computed again where it is read. All reductions of the group reduce the same dimensions
/// of arrays of one shape. False where it is not seen.
bool keeps_rows(const hlo::Computation& computation, const Group& group);

}  // namespace strata::emitters
