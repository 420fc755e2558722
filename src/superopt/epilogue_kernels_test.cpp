// What follows a product element by element is computed by the product's kernel.
#include "superopt/test_one_kernel.h"

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
  for (const char* text : {kResidual, kBias}) testing_one_kernel::expect_one_kernel(text, 1, /*libraries=*/false);
}

}  // namespace
}  // namespace strata
