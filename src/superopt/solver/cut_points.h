// Sums that two programs have in common, taken out: what remains often has none, and then no size matters.
#pragma once

#include <utility>

#include "superopt/verify/verify.h"

namespace strata {

/// Two programs in which tensors that both compute alike are inputs.
struct CutPrograms {
  GraphPtr reference;
  GraphPtr candidate;
  size_t cuts = 0;
  double error_bound = 0;  ///< of the proofs that the cut tensors are alike, together
};

/// Cuts at results of reductions and of blocks. Each pair of tensors is proved equivalent by `verify` on its own, so
/// whatever is proved of the rest, for all values of its inputs, holds of the programs. What is proved for almost all
/// values does not: cut tensors may depend on each other, be 0 on a region or everywhere. Where the reference's tensor
/// is undefined nothing is known of the candidate's: such a pair is cut only if each of the reference's outputs is
/// undefined there too whose counterpart depends on it. The inputs in the place of cut tensors follow the reference's
/// own. Nothing where no pair is found.
/// Error (Interrupted) when stopped.
Result<std::optional<CutPrograms>> cut_common_reductions(const Graph& reference, const Graph& candidate,
                                                         const VerifyOptions& options);

}  // namespace strata
