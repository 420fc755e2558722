#include "ops/one_dimension.h"
#include "ops/reads.h"

namespace strata {

struct Slice {
  static constexpr OpTraits traits{.name = "slice",
                                   .summary = "`size` elements from `start` on along one dimension",
                                   .arity = 1,
                                   .levels = {.kernel = true},
                                   .moves = true,
                                   .abstract_expression = "slice(dim, start, size, E(X))"};
  static constexpr std::array attributes{
      AttributeSpec{"dim", AttributeKind::Int, true, "the dimension that is cut, 0 outermost"},
      AttributeSpec{"start", AttributeKind::Int, true, "the first element that is kept"},
      AttributeSpec{"size", AttributeKind::Int, true, "how many are kept, at least 1"}};
  static constexpr CudaLowering cuda = library_cuda("slice");

  static Result<TensorType> infer(const OpScope&, OperandTypes operands, const Attributes& attributes) {
    TensorType result = operands[0];
    STRATA_TRY(const size_t dim, dimension_of(result, attributes));
    const int64_t start = attributes.integer("start");
    const int64_t size = attributes.integer("size");
    int64_t& whole = result.shape[dim];
    if (start < 0 || size < 1 || start > whole || size > whole - start) {
      return invalid("start={}, size={} is no part of dimension {} of {}", start, size, dim, to_string(result));
    }
    whole = size;
    return result;
  }
  static IndexLabels labels(OperandTypes operands, const Attributes& attributes) {
    return labels_but_dimension(operands, attributes);
  }
  static OperandReads reads(OperandTypes operands, const Attributes& attributes) {
    const auto dim = static_cast<size_t>(attributes.integer("dim"));
    Shape result = operands[0].shape;
    result[dim] = attributes.integer("size");
    return {moved_along(result, dim, indexing::Expr::dim(static_cast<int>(dim)) + attributes.integer("start"))};
  }
  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes,
                           const Attributes& attributes) {
    // Two slices of one tensor are different values.
    return b.function("slice", static_cast<int64_t>(attributes.hash() >> 1), e, false);
  }
  template <class A>
  static void eval(const EvalArgs<A>& args) {
    const auto& x = *args.operands[0];
    const auto dim = static_cast<size_t>(args.attributes.integer("dim"));
    const int64_t inner = inner_elements(x.shape, dim);
    const int64_t row = args.result.shape[dim] * inner;
    const int64_t first = args.attributes.integer("start") * inner;
    for (int64_t i = 0; i < args.result.size(); ++i) {
      args.result[i] = x[i / row * (x.shape[dim] * inner) + first + i % row];
    }
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Slice)
