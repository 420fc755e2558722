#include "superopt/decide.h"

namespace strata {

Result<Decision> decide(const Graph& reference, const Graph& candidate, const VerifyOptions& verification,
                        const SolverOptions& solving) {
  Decision decision;
  STRATA_TRY(decision.fields, verify(reference, candidate, verification));
  decision.verdict = decision.fields.verdict;
  if (decision.verdict != Verdict::Undecided) return decision;
  STRATA_TRY(decision.solver, prove_with_solver(reference, candidate, solving));
  decision.verdict = decision.solver->verdict;
  return decision;
}

}  // namespace strata
