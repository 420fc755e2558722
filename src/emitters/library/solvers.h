// Factors of matrices, eigenvalues, singular values and solves of triangular systems of HLO as cuSOLVER and cuBLAS take
// them.
#pragma once

#include <functional>
#include <optional>

#include "emitters/library/calls.h"
#include "hlo/expand_linear_algebra.h"

namespace strata::emitters {

/// How one instruction becomes a call. The libraries' matrices lie column by column, HLO's row by row: so each is the
/// other's transpose. Triangles, sides and transpositions are exchanged for that, or what is given and computed is
/// transposed: always where the library has no other way (LU, QR), and where its other way takes twice the time (lower
/// factors of Cholesky, which would be upper ones; large solves, which would be from the right).
struct SolverPlan {
  /// What the library writes, in its order.
  struct Written {
    size_t element = 0;       ///< which result of the instruction it is; those that are none of these are 0
    bool transposed = false;  ///< matrix by matrix
  };

  LibraryWork work;
  bool transposed = false;        ///< the call gets its first operand transposed
  bool sides_transposed = false;  ///< and its second: right-hand sides of a solve
  std::vector<Written> written{};
};

/// Of a cholesky, a triangular-solve, or a call that solver_factor knows, with elements of a type that the libraries
/// have: one call for all matrices of a batch, or one for each, by the price. `transposed`: the matrix of a
/// triangular-solve is there transposed; nothing where the library cannot say that.
std::optional<SolverPlan> plan_solver(const hlo::Computation& computation, const hlo::Instruction& it,
                                      const Target& target, bool transposed = false);

/// What the call computes, of operands that lie as the plan says, row-major.
hlo::Computation solver_callee(const hlo::Computation& computation, const hlo::Instruction& it, const SolverPlan& plan);

/// Microseconds of the loops that hlo::expand_linear_algebra and hlo::expand_solver_calls write, or of what
/// hlo::unroll_loops makes of them.
double loops_microseconds(const hlo::Computation& computation, const hlo::Instruction& it, const Target& target);
/// The same by the libraries, with what has to be transposed and selected around the call.
double solver_microseconds(const hlo::Computation& computation, const hlo::Instruction& it, const SolverPlan& plan,
                           const Target& target);

/// Which instructions of a module the libraries compute; none where they are to be on this machine and are not.
hlo::IsOfLibrary solver_choice(Solvers solvers, LibraryUse use, const Target& target);

}  // namespace strata::emitters
