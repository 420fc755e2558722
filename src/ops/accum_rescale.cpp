#include <utility>

#include "ops/elementwise.h"

namespace strata {

/// Online softmax (Milakov & Gimelshein, 2018) as an accumulator. The reference value M may be any at all: what an
/// iteration adds is meant relative to exp(M), and the result relative to exp of the largest M.
struct AccumRescale {
  static constexpr OpTraits traits{
      .name = "accum_rescale",
      .summary = "accumulator: Σ X · exp(M − the largest M) over the iterations of the for-loop",
      .arity = 2,
      .levels = {.kernel = false, .block = true, .thread = false},
      .accumulates = true,
      .lax = {.exponentiations = 1, .exponent_operand = 1},
      .abstract_expression = "sum(n, E(X))"};
  static constexpr std::array<AttributeSpec, 0> attributes{};
  static constexpr CudaLowering cuda = structural_cuda();

  static Result<TensorType> infer(const OpScope&, OperandTypes operands, const Attributes&) {
    STRATA_TRY(const TensorType result, infer_elementwise(operands));
    if (result.shape != operands[0].shape) {
      return invalid("the second operand {} does not broadcast to the first {}", to_string(operands[1]),
                     to_string(operands[0]));
    }
    return result;
  }
  static IndexLabels labels(OperandTypes operands, const Attributes&) { return elementwise_labels(operands); }
  static OperandReads reads(OperandTypes, const Attributes&) { return no_reads(); }
  /// The reference value cancels in whatever the result is good for, so it is left out.
  static ExprId expression(ExprBuilder& b, const OpScope& scope, std::span<const ExprId> e, OperandTypes,
                           const Attributes&) {
    return b.sum(scope.loop, e[0]);
  }
  /// Of exponents: over the field they are ordered as where only they are read.
  template <class A>
  static typename A::Value larger(A& a, typename A::Value x, typename A::Value y) {
    if constexpr (std::same_as<A, FieldArithmetic>) {
      const uint8_t live = std::exchange(a.live, FieldArithmetic::kResidueQ);
      const auto result = a.max(x, y);
      a.live = live;
      return result;
    } else {
      return a.max(x, y);
    }
  }
  template <class A>
  static void eval(const EvalArgs<A>& args) {
    const auto& x = *args.operands[0];
    const auto& m = *args.operands[1];
    auto& largest = *args.state;
    // Behind another accumulator it never sees iteration 0: validate refuses that, the interpreter must survive it.
    if (args.point.iteration == 0 || largest.shape != m.shape) {
      args.result.data = x.data;
      largest = m;
      return;
    }
    A& a = args.arithmetic;
    Tensor<typename A::Value> before(m.shape), now(m.shape);
    for (int64_t i = 0; i < m.size(); ++i) {
      const auto next = larger(a, largest[i], m[i]);
      before[i] = a.exp(a.sub(largest[i], next));
      now[i] = a.exp(a.sub(m[i], next));
      largest[i] = next;
    }
    for_each_index<1>(x.shape, {broadcast_strides(m.shape, x.shape.size())},
                      [&](int64_t i, const std::array<int64_t, 1>& at) {
                        args.result[i] = a.add(a.mul(args.result[i], before[at[0]]), a.mul(x[i], now[at[0]]));
                      });
  }
};

}  // namespace strata

STRATA_DEFINE_OP(AccumRescale)
