#include "ops/elementwise.h"

namespace strata {

struct Sqrt : Elementwise<Sqrt, 1> {
  static constexpr OpTraits traits{.name = "sqrt",
                                   .summary = "square root of x",
                                   .arity = 1,
                                   .levels = kAllLevels,
                                   .elementwise = true,
                                   .lax = {.root = true},
                                   .algebra = {.increasing = true, .nonnegative = true, .multiplicative = true},
                                   .abstract_expression = "sqrt(E(X))"};
  static constexpr CudaLowering cuda = elementwise_cuda("Math::square_root({0})");

  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes, const Attributes&) {
    return b.sqrt(e[0]);
  }
  template <class A>
  static auto apply(A& a, const Attributes&, typename A::Value x) {
    return a.sqrt(x);
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Sqrt)
