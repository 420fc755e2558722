// A second opinion on programs that were found equivalent: both are executed in float64 on inputs of many magnitudes and
// signs, and near the constants of the programs, where their kinks lie.
#pragma once

#include <optional>
#include <stop_token>
#include <string>

#include "ir/graph.h"

namespace strata {

struct RealCheckOptions {
  uint64_t seed = 1;
  double work = 2e8;  ///< scalar operations of all executions together (interpret/work.h), if two fit
  std::stop_token stop{};
};

/// Where float64 shows that two programs with one interface differ, in words: an entry that differs by more than
/// rounding explains, or is no number in the candidate and finite in the reference, also where the inputs are moved a
/// little. Nothing where it does not, or the programs are too large to be executed. Error (Interrupted) when stopped.
Result<std::optional<std::string>> refute_over_reals(const Graph& reference, const Graph& candidate,
                                                     const RealCheckOptions& options = {});

}  // namespace strata
