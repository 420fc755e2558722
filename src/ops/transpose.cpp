#include "ops/elementwise.h"
#include "ops/reads.h"

namespace strata {

struct Transpose {
  static constexpr OpTraits traits{
      .name = "transpose",
      .summary = "dimensions permuted: result dimension i is operand dimension perm[i]",
      .arity = 1,
      .levels = kKernelAndBlock,
      .moves = true,
      .algebra = {.linear = kFirstOperand, .increasing = true, .homogeneous = true, .translates = true},
      .abstract_expression = "E(X)"};
  static constexpr std::array attributes{
      AttributeSpec{"perm", AttributeKind::IntList, true, "a permutation of the operand's dimensions"}};
  static constexpr CudaLowering cuda = library_cuda("transpose");

  static Result<TensorType> infer(const OpScope&, OperandTypes operands, const Attributes& attributes) {
    const std::vector<int64_t>& perm = attributes.list("perm");
    const Shape& shape = operands[0].shape;
    TensorType result{operands[0].dtype, {}};
    std::vector<bool> used(shape.size(), false);
    for (int64_t d : perm) {
      const bool valid = d >= 0 && d < static_cast<int64_t>(shape.size()) && !used[static_cast<size_t>(d)];
      if (!valid || perm.size() != shape.size()) {
        return invalid("perm={} is no permutation of the {} dimensions of {}", to_string(AttributeValue(perm)),
                       shape.size(), to_string(operands[0]));
      }
      used[static_cast<size_t>(d)] = true;
      result.shape.push_back(shape[static_cast<size_t>(d)]);
    }
    if (perm.size() != shape.size()) {
      return invalid("perm={} is no permutation of the {} dimensions of {}", to_string(AttributeValue(perm)),
                     shape.size(), to_string(operands[0]));
    }
    return result;
  }
  static IndexLabels labels(OperandTypes operands, const Attributes& attributes) {
    IndexLabels labels{{std::vector<int>(operands[0].shape.size())}, {}};
    for (size_t d = 0; d < operands[0].shape.size(); ++d) labels.operands[0][d] = static_cast<int>(d);
    for (int64_t d : attributes.list("perm")) labels.result.push_back(static_cast<int>(d));
    return labels;
  }
  static OperandReads reads(OperandTypes operands, const Attributes& attributes) {
    const std::vector<int64_t>& perm = attributes.list("perm");
    Shape result(perm.size());
    for (size_t d = 0; d < perm.size(); ++d) result[d] = operands[0].shape[static_cast<size_t>(perm[d])];
    indexing::IndexingMap map = map_from(result);
    map.results.resize(perm.size());
    for (size_t d = 0; d < perm.size(); ++d) {
      map.results[static_cast<size_t>(perm[d])] = indexing::Expr::dim(static_cast<int>(d));
    }
    return {map};
  }
  static ExprId expression(ExprBuilder&, const OpScope&, std::span<const ExprId> e, OperandTypes, const Attributes&) {
    return e[0];
  }
  template <class A>
  static void eval(const EvalArgs<A>& args) {
    const auto& x = *args.operands[0];
    const auto strides = row_major_strides(x.shape);
    std::vector<int64_t> permuted;
    for (int64_t d : args.attributes.list("perm")) permuted.push_back(strides[static_cast<size_t>(d)]);
    for_each_index<1>(args.result.shape, {permuted},
                      [&](int64_t i, const std::array<int64_t, 1>& at) { args.result[i] = x[at[0]]; });
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Transpose)
