#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace strata {

/// Of a positive number, the smallest first.
inline std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> result;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    result.push_back(d);
    if (d != n / d) result.push_back(n / d);
  }
  std::sort(result.begin(), result.end());
  return result;
}

/// The largest divisor of a positive number that is no more than `most`, if it is no less than that by `factor`.
inline std::optional<int64_t> divisor_near(int64_t n, int64_t most, int64_t factor) {
  for (int64_t d = std::min(most, n); d * factor >= most && d > 0; --d) {
    if (n % d == 0) return d;
  }
  return std::nullopt;
}

}  // namespace strata
