// Products of few results and many terms: several blocks share each result, in two steps ("split-K").
#pragma once

#include "hlo/hlo.h"
#include "machine/target.h"

namespace strata::emitters {

/// The module with some `dot`s of its entry as a `dot` with one more batch dimension, of parts of the terms, and a sum
/// over that: those that so few blocks would compute that they do not reach the memory's bandwidth. Parts are added up
/// in a fixed order. Of floats with fewer bits they are floats of 32 bits until then. Terms that do not divide are
/// filled up with zeros.
hlo::Module share_long_products(const hlo::Module& module, const Target& target);

}  // namespace strata::emitters
