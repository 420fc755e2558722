#include "ops/elementwise.h"

namespace strata {

struct Div : Elementwise<Div, 2> {
  static constexpr OpTraits traits{.name = "div",
                                   .summary = "x / y, broadcast",
                                   .arity = 2,
                                   .levels = kAllLevels,
                                   .elementwise = true,
                                   .lax = {.divides = true},
                                   .algebra = {.linear = kFirstOperand, .multiplicative = true},
                                   .abstract_expression = "div(E(X), E(Y))"};
  static constexpr CudaLowering cuda = elementwise_cuda("Math::quotient({0}, {1})");

  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes, const Attributes&) {
    return b.div(e[0], e[1]);
  }
  template <class A>
  static auto apply(A& a, const Attributes&, typename A::Value x, typename A::Value y) {
    return a.div(x, y);
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Div)
