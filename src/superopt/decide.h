// Whether two programs are equivalent, by all that there is: what `strata verify` says.
#pragma once

#include <optional>

#include "superopt/solver/solver.h"
#include "superopt/verify/verify.h"

namespace strata {

struct Decision {
  Verdict verdict = Verdict::Undecided;
  VerifyResult fields;                 ///< what the finite fields say
  std::optional<SolverResult> solver;  ///< asked only where they leave it undecided
};

/// Whether `candidate` computes what `reference` does wherever that is defined: by the finite fields, and by the solver
/// where these leave it undecided. Error where the interfaces do not agree or (Interrupted) when stopped.
Result<Decision> decide(const Graph& reference, const Graph& candidate, const VerifyOptions& verification = {},
                        const SolverOptions& solving = {});

}  // namespace strata
