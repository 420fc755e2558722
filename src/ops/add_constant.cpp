#include "ops/elementwise.h"

namespace strata {

struct AddConstant : Elementwise<AddConstant, 1> {
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
  static auto apply(A& a, const Attributes& attributes, typename A::Value x) {
    return a.add(x, a.constant(attributes.rational("value")));
  }
  /// Overrides the base's loop to convert the constant once.
  template <class A>
  static void eval(const EvalArgs<A>& args) {
    const auto value = args.arithmetic.constant(args.attributes.rational("value"));
    for (int64_t i = 0; i < args.result.size(); ++i) {
      args.result[i] = args.arithmetic.add((*args.operands[0])[i], value);
    }
  }
};

}  // namespace strata

STRATA_DEFINE_OP(AddConstant)
