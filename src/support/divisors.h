#pragma once

#include <algorithm>
#include <cstdint>
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

}  // namespace strata
