#include "ops/elementwise.h"

namespace strata {

struct Greater : Elementwise<Greater, 2> {
  static constexpr OpTraits traits{.name = "greater",
                                   .summary = "1 where x > y, else 0; broadcast",
                                   .arity = 2,
                                   .levels = kAllLevels,
                                   .elementwise = true,
                                   .lax = {.inside = false},
                                   .algebra = {.nonnegative = true},
                                   .abstract_expression = "greater(E(X), E(Y))"};
  static constexpr CudaLowering cuda = elementwise_cuda("{0} > {1} ? 1 : 0");

  template <class A>
  static auto apply(A& a, const Attributes&, typename A::Value x, typename A::Value y) {
    return a.greater(x, y);
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Greater)
