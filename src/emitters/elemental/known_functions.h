// Functions that a text writes out operator by operator, found again.
#pragma once

#include <optional>
#include <string>

#include "hlo/hlo.h"

namespace strata::emitters {

/// The module with a map in the place of each part of a computation that computes a function the math library has, as
/// JAX writes erfc and erf_inv: a select over exponentials or logarithms and polynomials of one value. The computation
/// that the map calls is the part as it was, under a name that known_function knows. Found by its values, not by its
/// form: at some thousand arguments they are the function's, to the accuracy of such texts. Instructions keep their
/// numbers; those that are not needed any more stay without users. Nothing where there is none.
std::optional<hlo::Module> with_known_functions(const hlo::Module& module, hlo::ComputationId computation);

/// The math library's function for a computation that with_known_functions made, by its name; else nothing.
const char* known_function(const std::string& computation);

}  // namespace strata::emitters
