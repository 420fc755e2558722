#include "ops/elementwise.h"

namespace strata {

struct Rsqrt : Elementwise<Rsqrt, 1> {
  static constexpr OpTraits traits{.name = "rsqrt",
                                   .summary = "1 / sqrt(x)",
                                   .arity = 1,
                                   .levels = kAllLevels,
                                   .elementwise = true,
                                   .lax = {.divides = true, .root = true},
                                   .algebra = {.nonnegative = true, .positive = true, .multiplicative = true},
                                   .abstract_expression = "div(1, sqrt(E(X)))"};
  static constexpr CudaLowering cuda = elementwise_cuda("Math::inverse_root({0})");

  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes, const Attributes&) {
    return b.div(b.constant({1, 1}), b.sqrt(e[0]));
  }
  template <class A>
  static auto apply(A& a, const Attributes&, typename A::Value x) {
    return a.div(a.constant({1, 1}), a.sqrt(x));
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Rsqrt)
