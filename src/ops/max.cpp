#include "ops/elementwise.h"

namespace strata {

struct Max : Elementwise<Max, 2> {
  static constexpr OpTraits traits{
      .name = "max",
      .summary = "the larger of x and y, broadcast; NaN propagates",
      .arity = 2,
      .levels = kAllLevels,
      .commutative = true,
      .elementwise = true,
      .lax = {.maximum = true},
      .algebra = {.associative = true, .idempotent = true, .increasing = true, .homogeneous = true, .translates = true},
      .abstract_expression = "max(E(X), E(Y))"};
  static constexpr CudaLowering cuda = elementwise_cuda("strata_device::maximum({0}, {1})");

  template <class A>
  static auto apply(A& a, const Attributes&, typename A::Value x, typename A::Value y) {
    return a.max(x, y);
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Max)
