#include "ops/elementwise.h"

namespace strata {

struct AddConstant : ElementwiseWithConstant<AddConstant> {
  static constexpr OpTraits traits{.name = "add_constant",
                                   .summary = "x plus a constant",
                                   .arity = 1,
                                   .levels = kAllLevels,
                                   .elementwise = true,
                                   .abstract_expression = "add(value, E(X))"};
  static constexpr std::array attributes{
      AttributeSpec{"value", AttributeKind::Rational, true, "the constant, exactly: 1/1024 or 1e-5"}};
  static constexpr CudaLowering cuda = elementwise_cuda("{0} + {value}");

  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes,
                           const Attributes& attributes) {
    return b.add(b.constant(attributes.rational("value")), e[0]);
  }
  template <class A>
  static auto apply(A& a, typename A::Value x, typename A::Value constant) {
    return a.add(x, constant);
  }
};

}  // namespace strata

STRATA_DEFINE_OP(AddConstant)
