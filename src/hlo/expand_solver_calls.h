// Calls of CUDA's libraries that JAX lowers factors of matrices to, in terms of operators.
#pragma once

#include "hlo/expand_linear_algebra.h"
#include "hlo/hlo.h"
#include "hlo/jacobi_loops.h"

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
///  - cusolver_geqrf_ffi, a → (r and reflectors, their factors), as LAPACK has them (matrix_loops.h).
///  - cusolver_orgqr_ffi, these two → the first columns of the reflectors' product.
///  - cusolver_syevd_ffi, a symmetric a → (eigenvectors, eigenvalues, info), and cusolver_gesvd_ffi, _gesvdj_,
///  _gesvdp_,
///    a → (a, singular values, two factors of vectors, info), of real numbers: rotations until a tolerance is reached
///    (jacobi_loops.h). Vectors' signs, and vectors of equal values, are no library's. Factors that are not asked for
///    are 0. info is 1 where 40 sweeps did not do.
///  - What JAX lowers the same functions to for the CPU: lapack_?potrf_ffi, getrf, geqrf, orgqr, ungqr, trsm, syevd,
///    gesvd and gesdd, ? being the letter of the type.
///  - cu_lu_pivots_to_permutation, pivots from 0 → the permutation that these exchanges make.
/// Those without elements stay, and those that a library computes. Error where the module is not verified.
Result<Module> expand_solver_calls(const Module& module, const IsOfLibrary& is_of_library = {});
/// The module that it makes of a call that it knows.
std::string solver_call_loops(const Computation& computation, const Instruction& it);

/// Which vectors of a = u · diag · vᵀ a call asks for, and where they are among its results.
struct SingularForm {
  SingularVectors vectors = SingularVectors::None;
  size_t left = 2, right = 3;
  bool right_transposed = false;  ///< v in place of vᵀ
};

/// What a call makes of each matrix.
struct SolverFactor {
  enum class Kind : uint8_t { Cholesky, Lu, Qr, Orthogonal, Eigen, Singular };
  Kind kind = Kind::Cholesky;
  bool lower = false;       ///< of Cholesky and Eigen: the triangle
  SingularForm singular{};  ///< of Singular
};
/// Nothing where the call is none that is known, or none of these.
std::optional<SolverFactor> solver_factor(const Computation& computation, const Instruction& it);

}  // namespace strata::hlo
