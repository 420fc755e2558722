// How long random tests are.
#pragma once

#include <cstdlib>
#include <string_view>

namespace strata {

/// Rounds of a random test, or what so many must have met, of those that `make test-all` runs (STRATA_TEST_ROUNDS=all):
/// elsewhere a quarter of them. A test draws them one after the other, so these are the first.
inline int rounds(int all) {
  const char* which = std::getenv("STRATA_TEST_ROUNDS");
  return which != nullptr && std::string_view(which) == "all" ? all : (all + 3) / 4;
}

}  // namespace strata
