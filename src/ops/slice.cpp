#include "ops/elementwise.h"

namespace strata {

struct Slice {
  static constexpr OpTraits traits{.name = "slice",
                                   .summary = "`size` elements from `start` on along one dimension",
                                   .arity = 1,
                                   .levels = {.kernel = true},
                                   .abstract_expression = "slice(dim, start, size, E(X))"};
  static constexpr std::array attributes{
      AttributeSpec{"dim", AttributeKind::Int, true, "the dimension that is cut, 0 outermost"},
      AttributeSpec{"start", AttributeKind::Int, true, "the first element that is kept"},
      AttributeSpec{"size", AttributeKind::Int, true, "how many are kept, at least 1"}};
  static constexpr CudaLowering cuda = library_cuda("slice");

  static Result<TensorType> infer(const OpScope&, OperandTypes operands, const Attributes& attributes) {
    TensorType result = operands[0];
    const int64_t dim = attributes.integer("dim");
    const int64_t start = attributes.integer("start");
    const int64_t size = attributes.integer("size");
    const auto rank = static_cast<int64_t>(result.shape.size());
    if (dim < 0 || dim >= rank) return invalid("dim={} is outside 0 … {} of {}", dim, rank - 1, to_string(result));
    int64_t& whole = result.shape[static_cast<size_t>(dim)];
    if (start < 0 || size < 1 || start > whole || size > whole - start) {
      return invalid("start={}, size={} is no part of dimension {} of {}", start, size, dim, to_string(result));
    }
    whole = size;
    return result;
  }
  static IndexLabels labels(OperandTypes operands, const Attributes& attributes) {
    std::vector<int> of(operands[0].shape.size());
    for (size_t d = 0; d < of.size(); ++d) {
      of[d] = static_cast<int64_t>(d) == attributes.integer("dim") ? IndexLabels::kFree : static_cast<int>(d);
    }
    return {{of}, of};
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
    int64_t inner = 1;
    for (size_t d = dim + 1; d < x.shape.size(); ++d) inner *= x.shape[d];
    const int64_t row = args.result.shape[dim] * inner;
    const int64_t first = args.attributes.integer("start") * inner;
    for (int64_t i = 0; i < args.result.size(); ++i) {
      args.result[i] = x[i / row * (x.shape[dim] * inner) + first + i % row];
    }
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Slice)
