#include "ops/contraction.h"
#include "ops/reads.h"

namespace strata {

struct ConcatMatmul {
  static constexpr OpTraits traits{.name = "concat_matmul",
                                   .summary = "(A ∥ B) × (C ∥ D) = A × C + B × D, operands in the order A, B, C, D",
                                   .arity = 4,
                                   .levels = kKernelAndBlock,
                                   .products = 2,
                                   .matrices = true,
                                   .abstract_expression = "add(sum(k1, mul(E(A), E(C))), sum(k2, mul(E(B), E(D))))"};
  static constexpr std::array<AttributeSpec, 0> attributes{};
  static constexpr CudaLowering cuda = library_cuda("concat_matmul");

  static Result<TensorType> infer(const OpScope&, OperandTypes operands, const Attributes&) {
    STRATA_TRY(const TensorType left, infer_matmul(operands[0], operands[2]));
    STRATA_TRY(const TensorType right, infer_matmul(operands[1], operands[3]));
    if (left != right) {
      return invalid("the products A × C and B × D differ: {} against {}", to_string(left), to_string(right));
    }
    return left;
  }
  static IndexLabels labels(OperandTypes operands, const Attributes&) {
    const int rank = static_cast<int>(std::max(operands[0].shape.size(), operands[2].shape.size()));
    const IndexLabels left = matmul_labels(operands[0].shape, operands[2].shape, rank);
    const IndexLabels right = matmul_labels(operands[1].shape, operands[3].shape, rank + 1);
    return {{left.operands[0], right.operands[0], left.operands[1], right.operands[1]}, left.result};
  }
  static OperandReads reads(OperandTypes operands, const Attributes&) {
    const OperandReads left = matmul_reads(operands[0].shape, operands[2].shape);
    const OperandReads right = matmul_reads(operands[1].shape, operands[3].shape);
    return {left[0], right[0], left[1], right[1]};
  }
  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes operands,
                           const Attributes&) {
    return b.add(b.sum(operands[0].shape.back(), b.mul(e[0], e[2])),
                 b.sum(operands[1].shape.back(), b.mul(e[1], e[3])));
  }
  template <class A>
  static void eval(const EvalArgs<A>& args) {
    multiply<A, false>(args.arithmetic, *args.operands[0], *args.operands[2], args.result);
    multiply<A, true>(args.arithmetic, *args.operands[1], *args.operands[3], args.result);
  }
};

}  // namespace strata

STRATA_DEFINE_OP(ConcatMatmul)
