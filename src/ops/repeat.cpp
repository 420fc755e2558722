#include "ops/one_dimension.h"
#include "ops/reads.h"

namespace strata {

struct Repeat {
  static constexpr OpTraits traits{
      .name = "repeat",
      .summary = "the tensor `times` times in a row along one dimension",
      .arity = 1,
      .levels = kKernelAndBlock,
      .moves = true,
      .algebra = {.linear = kFirstOperand, .increasing = true, .homogeneous = true, .translates = true},
      .abstract_expression = "E(X)"};
  static constexpr std::array attributes{
      AttributeSpec{"dim", AttributeKind::Int, true, "the repeated dimension, 0 outermost"},
      AttributeSpec{"times", AttributeKind::Int, true, "how often, at least 1"}};
  static constexpr CudaLowering cuda = library_cuda("repeat");

  static Result<TensorType> infer(const OpScope&, OperandTypes operands, const Attributes& attributes) {
    TensorType result = operands[0];
    STRATA_TRY(const size_t dim, dimension_of(result, attributes));
    const int64_t times = attributes.integer("times");
    if (times < 1) return invalid("times={} is below 1", times);
    int64_t& size = result.shape[dim];
    STRATA_TRY(size, checked_product(size, times));
    return result;
  }
  static IndexLabels labels(OperandTypes operands, const Attributes& attributes) {
    return labels_but_dimension(operands, attributes);
  }
  static OperandReads reads(OperandTypes operands, const Attributes& attributes) {
    const auto dim = static_cast<size_t>(attributes.integer("dim"));
    Shape result = operands[0].shape;
    result[dim] *= attributes.integer("times");
    return {moved_along(result, dim, mod(indexing::Expr::dim(static_cast<int>(dim)), operands[0].shape[dim]))};
  }
  static ExprId expression(ExprBuilder&, const OpScope&, std::span<const ExprId> e, OperandTypes, const Attributes&) {
    return e[0];
  }
  template <class A>
  static void eval(const EvalArgs<A>& args) {
    const auto& x = *args.operands[0];
    const auto dim = static_cast<size_t>(args.attributes.integer("dim"));
    const int64_t row = x.shape[dim] * inner_elements(x.shape, dim);
    const int64_t times = args.attributes.integer("times");
    for (int64_t i = 0; i < args.result.size(); ++i) args.result[i] = x[i / (row * times) * row + i % row];
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Repeat)
