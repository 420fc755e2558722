// Arguments that look like a network's: what programs are executed on where the user gives none.
#pragma once

#include <vector>

#include "hlo/hlo.h"
#include "support/random.h"

namespace strata::hlo {

/// Floats and complex numbers are standard normal; integers small, from -4 to 15 (0 to 15 if unsigned) as far as the
/// type goes; pred either, as often.
Literal typical_literal(const Shape& shape, Random& random);
/// One for each parameter of the computation, in order.
std::vector<Literal> typical_arguments(const Computation& computation, uint64_t seed);

}  // namespace strata::hlo
