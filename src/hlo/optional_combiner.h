// Combiners without a neutral value, for arrays of which some may not be there: what an initial value is that changes
// nothing.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Of a combiner (a…, b…) → c… of k scalars that calls nothing, one of k + 1: the first says whether the others are
/// there (pred). Of two that are, c; of one, that one. (false, anything) is neutral.
Computation optional_combiner(const Computation& combiner);

/// Whether a computation has that form.
bool is_optional_combiner(const Computation& computation);

}  // namespace strata::hlo
