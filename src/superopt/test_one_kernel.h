// Small programs that become one kernel: searched, proved, and run on the host.
#pragma once

#include <gtest/gtest.h>

#include "superopt/codegen/test_host.h"
#include "superopt/superoptimize.h"

namespace strata::testing_one_kernel {

/// Of searches that their number of operators bounds, and no time.
inline SuperoptimizeOptions options_of_small_programs() {
  SuperoptimizeOptions options;
  options.search.target = &targets().back();
  options.search.threads = 2;
  options.search.time_limit = 0;
  options.candidates = 2;
  return options;
}

/// The program's best result is one kernel with a proof, and its code computes on the host what the interpreter does,
/// for inputs from −`magnitude` to `magnitude`.
inline void expect_one_kernel(const char* text, double magnitude, bool libraries) {
  const auto program = parse_graph(text);
  ASSERT_TRUE(program) << program.error().to_string();
  SuperoptimizeOptions options = options_of_small_programs();
  options.passes.libraries = libraries;
  const auto result = superoptimize(*program, options);
  ASSERT_TRUE(result) << result.error().to_string();
  const Candidate& best = result->candidates.front();
  EXPECT_EQ(best.cost.kernels, 1) << print(*best.graph);
  EXPECT_GT(best.verification.tests, 0);
  const auto [found, expected] =
      host_outputs(**program, result->code, uniform_inputs(**program, -magnitude, magnitude, 5), kPlainHost);
  ASSERT_EQ(found.size(), 1U);
  for (size_t i = 0; i < expected[0].data.size(); ++i)
    ASSERT_NEAR(found[0].data[i], expected[0].data[i], 0.01 * (1 + std::abs(expected[0].data[i]))) << i;
}

}  // namespace strata::testing_one_kernel
