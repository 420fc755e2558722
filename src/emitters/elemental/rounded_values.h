// Values of which in the end only floats of 16 bits are made: their functions need not be exact to the last bit of f32.
#pragma once

#include <vector>

#include "hlo/hlo.h"

namespace strata::emitters {

/// For each instruction of a computation, whether a relative error in its value is at most as large a relative error,
/// or a few times that, in what is rounded to floats of 16 bits or fewer, and reaches nothing else: through products,
/// quotients, roots, extrema, selection, movements, and sums of values that are not negative, where nothing cancels. So
/// softmax's exponentials of an array of bf16, though their sum is kept in f32. Only of functions (exp and the like),
/// and of none where more than four of them would add their errors up.
std::vector<bool> functions_rounded_to_half(const hlo::Module& module, hlo::ComputationId computation);

}  // namespace strata::emitters
