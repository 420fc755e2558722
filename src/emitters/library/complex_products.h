// Products of complex numbers as products of their parts.
#pragma once

#include "hlo/hlo.h"
#include "machine/target.h"

namespace strata::emitters {

/// Each dot of complex numbers in the entry as products of floats, which libraries and the emitters' products compute
/// as any others; but for those of so few terms that the loop which reads them computes them sooner than it could read
/// them. With (a + bi) · (c + di), terms of both parts are those of one sum:
///
///     real       [a, b] · [c, −d]
///     imaginary  [a, b] · [d, c]
///
/// Where an operand is known to be real, its part alone is multiplied by each part of the other. A part of the result
/// that nobody reads is not computed. The sums of a part are in floats of half the width, as the parts are; a product
/// of infinities may be NaN where the other form has an infinity.
hlo::Module split_complex_products(const hlo::Module& module, const Target& target);

}  // namespace strata::emitters
