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

/// Geometric mean; none of nothing.
std::optional<double> geometric_mean(const std::vector<double>& values);

}  // namespace strata
