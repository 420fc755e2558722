// What factors of matrices and solves of triangular systems by cuSOLVER and cuBLAS take, for library_seconds.
#pragma once

#include "machine/target.h"
#include "runtime/matrix_spectrum.h"

namespace strata {

/// Columns follow each other, whatever the matrices' number; beside that operations of all of them.
double factor_seconds(const MatrixFactor& factor, const Target& target);
double solve_seconds(const MatrixSolve& solve, const Target& target);
double spectrum_seconds(const MatrixSpectrum& spectrum, const Target& target);

}  // namespace strata
