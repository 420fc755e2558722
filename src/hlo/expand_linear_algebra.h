// Factors and solves of matrices in terms of loops, products and elementwise operators.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether expand_linear_algebra would replace any.
bool has_linear_algebra(const Module& module);

/// Each cholesky and triangular-solve as a call of a computation with loops over columns, in blocks where matrices are
/// large (matrix_loops.h): in the type of its operands, f32 where that is narrower. One without elements stays.
/// Error where the module is not verified.
Result<Module> expand_linear_algebra(const Module& module);

}  // namespace strata::hlo
