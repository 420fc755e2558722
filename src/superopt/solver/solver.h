// Equivalence of tensor programs with operators outside the Lax fragment (relu, max, comparisons, select) or with more
// exponentials than the finite fields bear: every output entry as a formula over the reals, compared by normal form and
// then by Z3. docs/solver.md has the argument and its limits.
#pragma once

#include "superopt/verify/verify.h"

namespace strata {

struct SolverOptions {
  double time_limit = 10;  ///< seconds for everything but executing the programs in float64
  uint64_t seed = 1;
  std::stop_token stop{};
};

/// An entry in which the programs differ, in float64 or in exact arithmetic, on inputs that can be made again.
struct SolverCounterexample {
  std::string output;
  std::vector<int64_t> index;
  double expected = 0;
  double found = 0;
  bool shrunk = false;  ///< of the programs at shrunk shapes
  std::vector<std::pair<std::string, Tensor<double>>> inputs;
};

struct SolverResult {
  Verdict verdict = Verdict::Undecided;
  std::string reason;              ///< why Different or Undecided
  std::string argument;            ///< of Equivalent: how it was shown and at which shapes, in one line
  std::vector<std::string> steps;  ///< what was tried, in order
  bool shrunk = false;             ///< shown at smaller shapes than the programs', where sizes do not matter
  double error_bound = 0;          ///< of sums that random tests found alike in both programs and that were cut out
  int64_t entries = 0;             ///< of all outputs
  int64_t by_normal_form = 0;
  int64_t by_cases = 0;
  int64_t by_z3 = 0;
  std::optional<SolverCounterexample> counterexample;
};

/// Equivalent: every output, at full shape, is the same function of the inputs wherever the reference's is defined.
/// Different: float64 or exact arithmetic shows it on a region. Undecided: neither, or time is up. Error where the
/// interfaces do not agree or (Interrupted) when stopped.
Result<SolverResult> prove_with_solver(const Graph& reference, const Graph& candidate,
                                       const SolverOptions& options = {});

}  // namespace strata
