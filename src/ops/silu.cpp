#include "ops/elementwise.h"

namespace strata {

struct SiLU : Elementwise<SiLU, 1> {
  static constexpr OpTraits traits{.name = "silu",
                                   .summary = "x / (1 + e^−x)",
                                   .arity = 1,
                                   .levels = kAllLevels,
                                   .elementwise = true,
                                   .lax = {.exponentiations = 1, .divides = true},
                                   .abstract_expression = "silu(E(X))"};
  static constexpr CudaLowering cuda = elementwise_cuda("Math::quotient({0}, 1.0f + Math::exponential(-({0})))");

  template <class A>
  static auto apply(A& a, const Attributes&, typename A::Value x) {
    return a.div(x, a.add(a.constant({1, 1}), a.exp(a.sub(a.constant({0, 1}), x))));
  }
};

}  // namespace strata

STRATA_DEFINE_OP(SiLU)
