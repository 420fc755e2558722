// Whether two programs differ over the reals, as far as float64 shows it: both are executed on inputs of many
// magnitudes and signs, and near the constants of the programs, where their kinks lie.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "interpret/interpret.h"

namespace strata {

struct RealCheckOptions {
  uint64_t seed = 1;
  double work = 2e8;  ///< scalar operations of all executions together (interpret/work.h), if two fit
  std::stop_token stop{};
};

/// An entry of an output in which two programs differ over the reals.
struct RealDifference {
  size_t output;
  int64_t entry;  ///< row-major
  double expected;
  double found;
  std::vector<Tensor<double>> inputs;  ///< in the reference's order
};

/// Whether the two programs differ on a region at the given inputs: on inputs nearby, by more than rounding explains,
/// or because the candidate is no number where the reference is finite. Equal numbers that happen to meet at the inputs
/// themselves do not count. Error (Interrupted) when stopped.
Result<std::optional<RealDifference>> difference_near(const Graph& reference, const Graph& candidate,
                                                      const std::vector<Tensor<double>>& inputs,
                                                      const RealCheckOptions& options = {});

/// Where two programs with one interface differ over the reals, of many inputs. Nothing where they do not, or are too
/// large to be executed. Error (Interrupted) when stopped.
Result<std::optional<RealDifference>> difference_over_reals(const Graph& reference, const Graph& candidate,
                                                            const RealCheckOptions& options = {});

/// "'O' differs at [1, 2]: 3 in the first program, 4 in the second, in float64".
std::string described(const Graph& reference, const RealDifference& difference);

}  // namespace strata
