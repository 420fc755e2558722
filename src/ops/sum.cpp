#include "ops/reads.h"
#include "ops/reduction.h"

namespace strata {

struct Sum {
  static constexpr OpTraits traits{.name = "sum",
                                   .summary = "sum of groups of elements along one dimension",
                                   .arity = 1,
                                   .levels = kKernelAndBlock,
                                   .reduces = true,
                                   .lax = {},
                                   .algebra = {.linear = kFirstOperand, .increasing = true, .homogeneous = true},
                                   .abstract_expression = "sum(k, E(X))"};
  static constexpr auto& attributes = kReductionAttributes;
  static constexpr CudaLowering cuda = library_cuda("sum");

  static Result<TensorType> infer(const OpScope&, OperandTypes operands, const Attributes& attributes) {
    return infer_reduction(operands[0], attributes);
  }
  static IndexLabels labels(OperandTypes operands, const Attributes& attributes) {
    return reduction_labels(operands[0].shape, attributes);
  }
  static OperandReads reads(OperandTypes operands, const Attributes& attributes) {
    return reduction_reads(operands[0].shape, attributes);
  }
  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes operands,
                           const Attributes& attributes) {
    return b.sum(reduction_extent(operands[0].shape, attributes), e[0]);
  }
  template <class A>
  static void eval(const EvalArgs<A>& args) {
    reduce(args, [&](auto a, auto b) { return args.arithmetic.add(a, b); });
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Sum)
