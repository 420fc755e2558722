// What follows a product element by element is computed by the product's kernel.
#include <gtest/gtest.h>

#include "superopt/codegen/test_host.h"
#include "superopt/superoptimize.h"

namespace strata {
namespace {

TEST(EpilogueKernels, ResidualsAndBiasesAreNoKernelsOfTheirOwn) {
  constexpr const char* kResidual = R"(
graph residual {
  input X: bf16[8, 256]
  input A: bf16[8, 512]
  input W: bf16[512, 256]
  P = matmul(A, W)
  Y = add(X, P)
  output Y
})";
  constexpr const char* kBias = R"(
graph bias {
  input A: bf16[8, 512]
  input W: bf16[512, 256]
  input B: bf16[256]
  P = matmul(A, W)
  S = add(P, B)
  Y = silu(S)
  output Y
})";
  for (const char* text : {kResidual, kBias}) {
    const auto program = parse_graph(text);
    ASSERT_TRUE(program) << program.error().to_string();
    SuperoptimizeOptions options;
    options.search.target = &targets().back();
    options.search.threads = 2;
    options.search.time_limit = 0;  // what bounds the search is its number of operators
    options.candidates = 2;
    options.passes.libraries = false;
    const auto result = superoptimize(*program, options);
    ASSERT_TRUE(result) << result.error().to_string();
    const Candidate& best = result->candidates.front();
    EXPECT_EQ(best.cost.kernels, 1) << print(*best.graph);
    EXPECT_GT(best.verification.tests, 0);
    const auto [found, expected] =
        host_outputs(**program, result->code, uniform_inputs(**program, -1, 1, 5), kPlainHost);
    ASSERT_EQ(found.size(), 1U);
    for (size_t i = 0; i < expected[0].data.size(); ++i)
      ASSERT_NEAR(found[0].data[i], expected[0].data[i], 0.01 * (1 + std::abs(expected[0].data[i]))) << i;
  }
}

}  // namespace
}  // namespace strata
