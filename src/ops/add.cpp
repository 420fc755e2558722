#include "ops/elementwise.h"

namespace strata {

struct Add : Elementwise<Add, 2> {
  static constexpr OpTraits traits{.name = "add",
                                   .summary = "x + y, broadcast",
                                   .arity = 2,
                                   .levels = kAllLevels,
                                   .commutative = true,
                                   .elementwise = true,
                                   .lax = {},
                                   .algebra = {.associative = true, .increasing = true, .homogeneous = true},
                                   .abstract_expression = "add(E(X), E(Y))"};
  static constexpr CudaLowering cuda = elementwise_cuda("{0} + {1}");

  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes, const Attributes&) {
    return b.add(e[0], e[1]);
  }
  template <class A>
  static auto apply(A& a, const Attributes&, typename A::Value x, typename A::Value y) {
    return a.add(x, y);
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Add)
