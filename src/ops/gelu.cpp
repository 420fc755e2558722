#include "ops/elementwise.h"

namespace strata {

/// x/2 · (1 + tanh z), z = c·(x + 0.044715·x³), is x / (1 + e^−2z): one exponentiation, inside the fragment. Proofs are
/// about rational constants, so c is 123637/154956, which is √(2/π) to 3e-11, and part of what the operator means.
struct Gelu : Elementwise<Gelu, 1> {
  static constexpr OpTraits traits{
      .name = "gelu",
      .summary = "x/2 · (1 + tanh(c·(x + 0.044715·x³))), c = 123637/154956, √(2/π) to 3e-11",
      .arity = 1,
      .levels = kAllLevels,
      .elementwise = true,
      .lax = {.exponentiations = 1, .divides = true},
      .abstract_expression = "gelu(E(X))"};
  static constexpr CudaLowering cuda = elementwise_cuda("strata_device::gelu<Math>({0})");

  template <class A>
  static auto apply(A& a, const Attributes&, typename A::Value x) {
    const auto cube = a.mul(x, a.mul(x, x));
    const auto z = a.add(x, a.mul(a.constant({8943, 200000}), cube));
    const auto power = a.exp(a.mul(a.constant({-123637, 77478}), z));
    return a.div(x, a.add(a.constant({1, 1}), power));
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Gelu)
