#include "ops/elementwise.h"
#include "ops/reads.h"

namespace strata {

struct Reshape {
  static constexpr OpTraits traits{
      .name = "reshape",
      .summary = "the same elements in row-major order under another shape",
      .arity = 1,
      .levels = kKernelAndBlock,
      .moves = true,
      .algebra = {.linear = kFirstOperand, .increasing = true, .homogeneous = true, .translates = true},
      .abstract_expression = "E(X)"};
  static constexpr std::array attributes{
      AttributeSpec{"shape", AttributeKind::IntList, true, "the new sizes; their product is the old one"}};
  static constexpr CudaLowering cuda = library_cuda("reshape");

  static Result<TensorType> infer(const OpScope&, OperandTypes operands, const Attributes& attributes) {
    const Shape& shape = attributes.list("shape");
    if (shape.size() > kMaxRank) return invalid("shape={} has more than {} dimensions", to_string(shape), kMaxRank);
    int64_t left = operands[0].elements();
    for (int64_t size : shape) {
      if (size < 1 || left % size != 0) {
        return invalid("shape={} has not the {} elements of {}", to_string(shape), operands[0].elements(),
                       to_string(operands[0]));
      }
      left /= size;
    }
    if (left != 1) {
      return invalid("shape={} has not the {} elements of {}", to_string(shape), operands[0].elements(),
                     to_string(operands[0]));
    }
    return TensorType{operands[0].dtype, shape};
  }
  /// Leading and trailing dimensions of equal size keep their label; those between are regrouped.
  static IndexLabels labels(OperandTypes operands, const Attributes& attributes) {
    const Shape& from = operands[0].shape;
    const Shape& to = attributes.list("shape");
    IndexLabels labels{{std::vector<int>(from.size(), IndexLabels::kFree)},
                       std::vector<int>(to.size(), IndexLabels::kFree)};
    size_t leading = 0;
    while (leading < from.size() && leading < to.size() && from[leading] == to[leading]) {
      labels.operands[0][leading] = labels.result[leading] = static_cast<int>(leading);
      ++leading;
    }
    for (size_t i = 1; leading + i <= from.size() && leading + i <= to.size(); ++i) {
      if (from[from.size() - i] != to[to.size() - i]) break;
      labels.operands[0][from.size() - i] = labels.result[to.size() - i] = static_cast<int>(to.size() - i);
    }
    return labels;
  }
  static OperandReads reads(OperandTypes operands, const Attributes& attributes) {
    return {reshape_read(operands[0].shape, attributes.list("shape"))};
  }
  static ExprId expression(ExprBuilder&, const OpScope&, std::span<const ExprId> e, OperandTypes, const Attributes&) {
    return e[0];
  }
  template <class A>
  static void eval(const EvalArgs<A>& args) {
    args.result.data = args.operands[0]->data;
  }
};

}  // namespace strata

STRATA_DEFINE_OP(Reshape)
