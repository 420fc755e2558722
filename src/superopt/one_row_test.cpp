// Programs of one row, whose reductions leave a grid nothing to cut.
#include "superopt/test_one_kernel.h"

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
  for (const char* text : {kNorm, kSoftmax}) testing_one_kernel::expect_one_kernel(text, 2, /*libraries=*/true);
}

}  // namespace
}  // namespace strata
