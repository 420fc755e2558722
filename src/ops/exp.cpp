#include "ops/elementwise.h"

namespace strata {

struct Exp : Elementwise<Exp, 1> {
  static constexpr OpTraits traits{
      .name = "exp",
      .summary = "e to the power x",
      .arity = 1,
      .levels = kAllLevels,
      .elementwise = true,
      .lax = {.exponentiations = 1},
      .algebra = {.increasing = true, .nonnegative = true, .positive = true, .exponential = true},
      .abstract_expression = "exp(E(X))"};
  static constexpr CudaLowering cuda = elementwise_cuda("Math::exponential({0})");

  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes, const Attributes&) {
    return b.exp(e[0]);
  }
  template <class A>
  static auto apply(A& a, const Attributes&, typename A::Value x) {
    return a.exp(x);
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Exp)
