#include "ops/elementwise.h"

namespace strata {

struct Scale : ElementwiseWithConstant<Scale> {
  static constexpr OpTraits traits{.name = "scale",
                                   .summary = "x times a constant",
                                   .arity = 1,
                                   .levels = kAllLevels,
                                   .elementwise = true,
                                   .algebra = {.linear = kFirstOperand, .homogeneous = true},
                                   .abstract_expression = "mul(factor, E(X))"};
  static constexpr std::array attributes{
      AttributeSpec{"factor", AttributeKind::Rational, true, "the constant, exactly: 1/1024 or 0.125"}};
  static constexpr CudaLowering cuda = elementwise_cuda("{0} * {factor}");

  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes,
                           const Attributes& attributes) {
    return b.mul(b.constant(attributes.rational("factor")), e[0]);
  }
  template <class A>
  static auto apply(A& a, typename A::Value x, typename A::Value constant) {
    return a.mul(constant, x);
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Scale)
