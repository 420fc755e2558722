#include "ops/elementwise.h"

namespace strata {

struct Sub : Elementwise<Sub, 2> {
  static constexpr OpTraits traits{.name = "sub",
                                   .summary = "x − y, broadcast",
                                   .arity = 2,
                                   .levels = kAllLevels,
                                   .elementwise = true,
                                   .lax = {},
                                   .algebra = {.homogeneous = true},
                                   .abstract_expression = "add(E(X), mul(-1, E(Y)))"};
  static constexpr CudaLowering cuda = elementwise_cuda("{0} - {1}");

  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes, const Attributes&) {
    return b.add(e[0], b.mul(b.constant({-1, 1}), e[1]));
  }
  template <class A>
  static auto apply(A& a, const Attributes&, typename A::Value x, typename A::Value y) {
    return a.sub(x, y);
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Sub)
