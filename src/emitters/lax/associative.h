// Whether a combiner may be regrouped.
#pragma once

#include "hlo/hlo.h"

namespace strata::emitters {

/// Whether c(c(x, y), z) = c(x, c(y, z)) is shown, over the reals for floats, of a computation (a₀ … aₖ₋₁, b₀ … bₖ₋₁)
/// → c₀ … cₖ₋₁ of scalars (a tuple where k > 1) that calls nothing. Truth values of the operands are tried out. What is
/// then not the same expression is one associative operator of the result's own two operands, or a pair of programs
/// that the superoptimizer's verifier decides upon (superopt/decide.h). Sums and products of integers and complex
/// numbers are compared as polynomials. False also where nothing is shown.
bool is_associative(const hlo::Computation& combiner);

}  // namespace strata::emitters
