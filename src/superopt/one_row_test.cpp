// Programs of one row, whose reductions leave a grid nothing to cut.
#include <gtest/gtest.h>

#include "superopt/codegen/test_host.h"
#include "superopt/superoptimize.h"

namespace strata {
namespace {

/// A row leaves a grid nothing to cut, so its kernel is one block.
TEST(OneRow, IsOneKernel) {
  constexpr const char* kNorm = R"(
graph norm {
  input X: bf16[1, 264]
  input G: bf16[264]
  S = sqr(X)
  T = sum(S, dim=1)
  M = scale(T, factor=1/264)
  R = rsqrt(M)
  N = mul(X, R)
  Y = mul(N, G)
  output Y
})";
  constexpr const char* kSoftmax = R"(
graph softmax {
  input X: f32[1, 520]
  L = reduce_max(X, dim=1)
  B = sub(X, L)
  E = exp(B)
  T = sum(E, dim=1)
  Y = div(E, T)
  output Y
})";
  for (const char* text : {kNorm, kSoftmax}) {
    const auto program = parse_graph(text);
    ASSERT_TRUE(program) << program.error().to_string();
    SuperoptimizeOptions options;
    options.search.target = &targets().back();
    options.search.threads = 2;
    options.search.time_limit = 0;  // what bounds the search is its number of operators
    options.candidates = 2;
    const auto result = superoptimize(*program, options);
    ASSERT_TRUE(result) << result.error().to_string();
    const Candidate& best = result->candidates.front();
    EXPECT_EQ(best.cost.kernels, 1) << print(*best.graph);
    EXPECT_GT(best.verification.tests, 0);
    const auto [found, expected] =
        host_outputs(**program, result->code, uniform_inputs(**program, -2, 2, 5), kPlainHost);
    ASSERT_EQ(found.size(), 1U);
    for (size_t i = 0; i < expected[0].data.size(); ++i)
      ASSERT_NEAR(found[0].data[i], expected[0].data[i], 0.01 * (1 + std::abs(expected[0].data[i]))) << i;
  }
}

}  // namespace
}  // namespace strata
