// Factors and solves of matrices in terms of loops, products and elementwise operators.
#pragma once

#include <functional>
#include <string>

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether expand_linear_algebra would replace any.
bool has_linear_algebra(const Module& module);

/// Of an instruction, whether a library computes it.
using IsOfLibrary = std::function<bool(const Computation& computation, const Instruction& it)>;

/// Each cholesky and triangular-solve as a call of a computation with loops over columns, in blocks where matrices are
/// large (matrix_loops.h): in the type of its operands, f32 where that is narrower. One without elements stays.
/// Of those that a library computes, a triangular-solve stays, and a cholesky becomes cusolver_potrf_ffi
/// (expand_solver_calls.h): NaN where that finds no factor, and zeros in the other triangle.
/// Error where the module is not verified.
Result<Module> expand_linear_algebra(const Module& module, const IsOfLibrary& is_of_library = {});
/// The module of loops that it makes of a cholesky or triangular-solve with elements.
std::string linear_algebra_loops(const Computation& computation, const Instruction& it);

}  // namespace strata::hlo
