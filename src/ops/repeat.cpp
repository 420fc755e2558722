#include "ops/elementwise.h"

namespace strata {

struct Repeat {
  static constexpr OpTraits traits{
      .name = "repeat",
      .summary = "the tensor `times` times in a row along one dimension",
      .arity = 1,
      .levels = kKernelAndBlock,
      .algebra = {.linear = kFirstOperand, .increasing = true, .homogeneous = true, .translates = true},
      .abstract_expression = "E(X)"};
  static constexpr std::array attributes{
      AttributeSpec{"dim", AttributeKind::Int, true, "the repeated dimension, 0 outermost"},
      AttributeSpec{"times", AttributeKind::Int, true, "how often, at least 1"}};
  static constexpr CudaLowering cuda = library_cuda("repeat");

  static Result<TensorType> infer(const OpScope&, OperandTypes operands, const Attributes& attributes) {
    TensorType result = operands[0];
    const int64_t dim = attributes.integer("dim");
    const int64_t times = attributes.integer("times");
    const auto rank = static_cast<int64_t>(result.shape.size());
    if (dim < 0 || dim >= rank) return invalid("dim={} is outside 0 … {} of {}", dim, rank - 1, to_string(result));
    if (times < 1) return invalid("times={} is below 1", times);
    int64_t& size = result.shape[static_cast<size_t>(dim)];
    STRATA_TRY(size, checked_product(size, times));
    return result;
  }
  static IndexLabels labels(OperandTypes operands, const Attributes& attributes) {
    IndexLabels labels{{{}}, {}};
    for (size_t d = 0; d < operands[0].shape.size(); ++d) {
      const bool kept = static_cast<int64_t>(d) != attributes.integer("dim");
      labels.result.push_back(kept ? static_cast<int>(d) : IndexLabels::kFree);
    }
    labels.operands[0] = labels.result;
    return labels;
  }
  static ExprId expression(ExprBuilder&, const OpScope&, std::span<const ExprId> e, OperandTypes, const Attributes&) {
    return e[0];
  }
  template <class A>
  static void eval(const EvalArgs<A>& args) {
    const auto& x = *args.operands[0];
    const auto dim = static_cast<size_t>(args.attributes.integer("dim"));
    int64_t row = 1;
    for (size_t d = dim; d < x.shape.size(); ++d) row *= x.shape[d];
    const int64_t times = args.attributes.integer("times");
    for (int64_t i = 0; i < args.result.size(); ++i) args.result[i] = x[i / (row * times) * row + i % row];
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Repeat)
