// Files of bench/results as rows of one form: what Strata takes, what the hardware's floor is, and what others take.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "report/json_access.h"

namespace strata {

struct BenchRow {
  std::string name;
  double us = 0;                        ///< Strata's
  double floor = 0;                     ///< µs; 0: none is known
  std::map<std::string, double> peers;  ///< µs, by name

  /// The fastest peer; end() where there is none.
  std::map<std::string, double>::const_iterator fastest_peer() const;
};

/// The rows that have a time of Strata's; of any of the forms that the scripts of bench/gpu write. Empty where it is
/// none of them, such as files of correctness.
std::vector<BenchRow> bench_rows(const Json& results);

/// Whether a ratio of a peer's time to Strata's means that Strata is slower, or faster; nearer to 1 they count as
/// equal, as in headlines of searches.
inline bool is_slower(double ratio) { return ratio < 1 / 1.005; }
inline bool is_faster(double ratio) { return ratio > 1.005; }

/// Geometric mean; none of nothing.
std::optional<double> geometric_mean(const std::vector<double>& values);

}  // namespace strata
