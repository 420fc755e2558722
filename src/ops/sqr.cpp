#include "ops/elementwise.h"

namespace strata {

struct Sqr : Elementwise<Sqr, 1> {
  static constexpr OpTraits traits{.name = "sqr",
                                   .summary = "x · x",
                                   .arity = 1,
                                   .levels = kAllLevels,
                                   .elementwise = true,
                                   .lax = {},
                                   .algebra = {.nonnegative = true, .multiplicative = true},
                                   .abstract_expression = "mul(E(X), E(X))"};
  static constexpr CudaLowering cuda = elementwise_cuda("{0} * {0}");

  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes, const Attributes&) {
    return b.mul(e[0], e[0]);
  }
  template <class A>
  static auto apply(A& a, const Attributes&, typename A::Value x) {
    return a.mul(x, x);
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Sqr)
