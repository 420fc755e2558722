// Calls of CUDA's libraries that JAX lowers factors of matrices to, in terms of operators.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// Whether a call of another program is one that expand_solver_calls knows, on operands that fit.
bool is_solver_call(const Computation& computation, const Instruction& it);
bool has_solver_calls(const Module& module);

/// Each of these calls as a call of a computation, batches before the last dimensions:
///  - cusolver_potrf_ffi, a → (factor, info): a cholesky of the triangle that backend_config says (lower = true), and
///    the other triangle as it was. Where there is no factor: NaN, and info 1 where the library has the number of the
///    first column without.
///  - cusolver_getrf_ffi, a → (l below u, pivots from 1, info): elimination with partial pivoting (matrix_loops.h).
///    info is the number from 1 of the first pivot that is 0, or 0.
///  - cu_lu_pivots_to_permutation, pivots from 0 → the permutation that these exchanges make.
/// Those without elements stay. Error where the module is not verified.
Result<Module> expand_solver_calls(const Module& module);

}  // namespace strata::hlo
