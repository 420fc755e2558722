#include "ops/contraction.h"
#include "ops/reads.h"

namespace strata {

struct Matmul {
  static constexpr OpTraits traits{.name = "matmul",
                                   .summary = "matrix product of the innermost two dimensions, leading ones batched",
                                   .arity = 2,
                                   .levels = kKernelAndBlock,
                                   .products = 1,
                                   .matrices = true,
                                   .algebra = {.linear = kFirstOperand | kSecondOperand},
                                   .abstract_expression = "sum(k, mul(E(X), E(Y)))"};
  static constexpr std::array<AttributeSpec, 0> attributes{};
  static constexpr CudaLowering cuda = library_cuda("matmul");

  static Result<TensorType> infer(const OpScope&, OperandTypes operands, const Attributes&) {
    return infer_matmul(operands[0], operands[1]);
  }
  static IndexLabels labels(OperandTypes operands, const Attributes&) {
    const Shape& a = operands[0].shape;
    const Shape& b = operands[1].shape;
    return matmul_labels(a, b, static_cast<int>(std::max(a.size(), b.size())));
  }
  static OperandReads reads(OperandTypes operands, const Attributes&) {
    return matmul_reads(operands[0].shape, operands[1].shape);
  }
  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes operands,
                           const Attributes&) {
    return b.sum(operands[0].shape.back(), b.mul(e[0], e[1]));
  }
  template <class A>
  static void eval(const EvalArgs<A>& args) {
    multiply<A, false>(args.arithmetic, *args.operands[0], *args.operands[1], args.result);
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Matmul)
