#include "ops/elementwise.h"

namespace strata {

struct Mul : Elementwise<Mul, 2> {
  static constexpr OpTraits traits{
      .name = "mul",
      .summary = "x · y, broadcast",
      .arity = 2,
      .levels = kAllLevels,
      .commutative = true,
      .elementwise = true,
      .lax = {},
      .algebra = {.linear = kFirstOperand | kSecondOperand, .associative = true, .multiplicative = true},
      .abstract_expression = "mul(E(X), E(Y))"};
  static constexpr CudaLowering cuda = elementwise_cuda("{0} * {1}");

  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes, const Attributes&) {
    return b.mul(e[0], e[1]);
  }
  template <class A>
  static auto apply(A& a, const Attributes&, typename A::Value x, typename A::Value y) {
    return a.mul(x, y);
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Mul)
