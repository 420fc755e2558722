#include "ops/tiling.h"

namespace strata {

struct Accum {
  static constexpr OpTraits traits{.name = "accum",
                                   .summary = "accumulator: combines a tensor over the iterations of the for-loop",
                                   .arity = 1,
                                   .levels = {.kernel = false, .block = true, .thread = false},
                                   .accumulates = true,
                                   .abstract_expression = "sum: sum(n, E(X)); concat: E(X); max: reduce_max(n, E(X))"};
  static constexpr std::array attributes{
      AttributeSpec{"kind", AttributeKind::Word, true, "sum, max or concat"},
      AttributeSpec{"dim", AttributeKind::Int, false, "concat: the dimension along which iterations lie side by side"}};
  static constexpr CudaLowering cuda = structural_cuda();

  static Result<TensorType> infer(const OpScope& scope, OperandTypes operands, const Attributes& attributes) {
    TensorType result = operands[0];
    const std::string& kind = attributes.word("kind");
    if (kind == "sum" || kind == "max") {
      if (attributes.has("dim")) return invalid("accum kind={} takes no dim", kind);
      return result;
    }
    if (kind != "concat") return invalid("accum kind={} is unknown; expected sum, max or concat", kind);
    const int64_t dim = attributes.integer_or("dim", -1);
    if (dim < 0 || dim >= static_cast<int64_t>(result.shape.size())) {
      return invalid("accum kind=concat needs dim= a dimension of {}", to_string(result));
    }
    int64_t& size = result.shape[static_cast<size_t>(dim)];
    STRATA_TRY(size, checked_product(size, scope.loop));
    return result;
  }
  static IndexLabels labels(OperandTypes operands, const Attributes&) { return elementwise_labels(operands); }
  static OperandReads reads(OperandTypes, const Attributes&) { return no_reads(); }
  static ExprId expression(ExprBuilder& b, const OpScope& scope, std::span<const ExprId> e, OperandTypes,
                           const Attributes& attributes) {
    const std::string& kind = attributes.word("kind");
    if (kind == "sum") return b.sum(scope.loop, e[0]);
    if (kind == "max") return b.function("reduce_max", scope.loop, e, false);
    return e[0];
  }
  template <class A>
  static void eval(const EvalArgs<A>& args) {
    const auto& x = *args.operands[0];
    const std::string& kind = args.attributes.word("kind");
    if (kind == "concat") {
      std::vector<int64_t> position(x.shape.size(), 0);
      position[static_cast<size_t>(args.attributes.integer("dim"))] = args.point.iteration;
      for_each_in_tile(args.result.shape, x.shape, position,
                       [&](int64_t to, int64_t from) { args.result[to] = x[from]; });
    } else if (args.point.iteration == 0) {
      args.result.data = x.data;
    } else if (kind == "sum") {
      for (int64_t i = 0; i < x.size(); ++i) args.result[i] = args.arithmetic.add(args.result[i], x[i]);
    } else {
      for (int64_t i = 0; i < x.size(); ++i) args.result[i] = args.arithmetic.max(args.result[i], x[i]);
    }
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Accum)
