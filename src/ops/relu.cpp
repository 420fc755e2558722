#include "ops/elementwise.h"

namespace strata {

struct Relu : Elementwise<Relu, 1> {
  static constexpr OpTraits traits{
      .name = "relu",
      .summary = "the larger of x and 0; NaN propagates",
      .arity = 1,
      .levels = kAllLevels,
      .elementwise = true,
      .lax = {.inside = false},
      .algebra = {.idempotent = true, .increasing = true, .homogeneous = true, .nonnegative = true},
      .abstract_expression = "relu(E(X))"};
  static constexpr CudaLowering cuda = elementwise_cuda("{0} > 0 || {0} != {0} ? {0} : 0");

  template <class A>
  static auto apply(A& a, const Attributes&, typename A::Value x) {
    return a.max(x, a.constant({0, 1}));
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Relu)
