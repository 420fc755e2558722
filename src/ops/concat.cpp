#include "ops/one_dimension.h"
#include "ops/reads.h"

namespace strata {

struct Concat {
  static constexpr OpTraits traits{.name = "concat",
                                   .summary = "two or more tensors one after the other along one dimension",
                                   .arity = OpTraits::kVariadic,
                                   .levels = kKernelAndBlock,
                                   .moves = true,
                                   .algebra = {.increasing = true, .homogeneous = true, .translates = true},
                                   .abstract_expression = "concat(E(X), E(Y), …)"};
  static constexpr std::array attributes{
      AttributeSpec{"dim", AttributeKind::Int, true, "the dimension whose sizes add up, 0 outermost"}};
  static constexpr CudaLowering cuda = library_cuda("concat");

  static Result<TensorType> infer(const OpScope&, OperandTypes operands, const Attributes& attributes) {
    TensorType result = operands[0];
    STRATA_TRY(const size_t dim, dimension_of(result, attributes));
    for (const TensorType& operand : operands.subspan(1)) {
      TensorType expected = result;
      if (operand.shape.size() == result.shape.size()) {
        expected.shape[dim] = operand.shape[dim];
      }
      if (operand != expected) {
        return invalid("operand {} does not continue {} along dim={}", to_string(operand), to_string(result), dim);
      }
      if (__builtin_add_overflow(result.shape[dim], operand.shape[dim], &result.shape[dim])) {
        return invalid("the sizes along dim={} add up to more than 2^63", dim);
      }
    }
    return result;
  }
  static IndexLabels labels(OperandTypes operands, const Attributes& attributes) {
    return labels_but_dimension(operands, attributes);
  }
  static OperandReads reads(OperandTypes operands, const Attributes& attributes) {
    const auto dim = static_cast<size_t>(attributes.integer("dim"));
    Shape result = operands[0].shape;
    for (const TensorType& operand : operands.subspan(1)) result[dim] += operand.shape[dim];
    OperandReads reads;
    int64_t start = 0;
    for (const TensorType& operand : operands) {
      const indexing::Expr at = indexing::Expr::dim(static_cast<int>(dim)) - start;
      reads.push_back(moved_along(result, dim, at));
      if (operands.size() > 1) reads.back().constraints.push_back({at, indexing::below(operand.shape[dim])});
      start += operand.shape[dim];
    }
    return reads;
  }
  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes, const Attributes&) {
    return b.function("concat", 0, e, false);
  }
  template <class A>
  static void eval(const EvalArgs<A>& args) {
    const auto dim = static_cast<size_t>(args.attributes.integer("dim"));
    const int64_t inner = inner_elements(args.result.shape, dim);
    const int64_t row = args.result.shape[dim] * inner;
    const int64_t outer = args.result.size() / row;
    int64_t start = 0;
    for (const auto* x : args.operands) {
      const int64_t part = x->shape[dim] * inner;
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < part; ++i) args.result[o * row + start + i] = (*x)[o * part + i];
      }
      start += part;
    }
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Concat)
