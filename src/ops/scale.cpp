#include "ops/elementwise.h"

namespace strata {

struct Scale : Elementwise<Scale, 1> {
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
  static auto apply(A& a, const Attributes& attributes, typename A::Value x) {
    return a.mul(a.constant(attributes.rational("factor")), x);
  }
  /// Overrides the base's loop to convert the constant once.
  template <class A>
  static void eval(const EvalArgs<A>& args) {
    const auto factor = args.arithmetic.constant(args.attributes.rational("factor"));
    for (int64_t i = 0; i < args.result.size(); ++i) {
      args.result[i] = args.arithmetic.mul(factor, (*args.operands[0])[i]);
    }
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Scale)
