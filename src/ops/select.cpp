#include "ops/elementwise.h"

namespace strata {

struct Select : Elementwise<Select, 3> {
  static constexpr OpTraits traits{.name = "select",
                                   .summary = "y where x ≠ 0, else z; broadcast",
                                   .arity = 3,
                                   .levels = kAllLevels,
                                   .elementwise = true,
                                   .lax = {.inside = false},
                                   .algebra = {.homogeneous = true},
                                   .abstract_expression = "select(E(X), E(Y), E(Z))"};
  static constexpr CudaLowering cuda = elementwise_cuda("{0} != 0 ? {1} : {2}");

  template <class A>
  static auto apply(A& a, const Attributes&, typename A::Value c, typename A::Value x, typename A::Value y) {
    return a.select(c, x, y);
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Select)
