// What elementwise operators share: broadcasting, shape rule, labels and the loop. Such an operator's file
// states only its scalar function `apply`, its traits, its expression and its CUDA.
#pragma once

#include "ops/op_def.h"

namespace strata {

Result<TensorType> infer_elementwise(OperandTypes operands);
/// What tells an operator with its attributes from others where it stands for a random function.
uint64_t function_key(std::string_view name, const Attributes& attributes);
IndexLabels elementwise_labels(OperandTypes operands);
OperandReads elementwise_reads(OperandTypes operands);
/// Of operators whose reads block and iteration decide.
OperandReads no_reads();

/// CRTP base of operators of one to three operands; `apply(arithmetic, attributes, x...)` is the scalar meaning.
template <class Op, int Arity>
struct Elementwise {
  static constexpr std::array<AttributeSpec, 0> attributes{};

  static Result<TensorType> infer(const OpScope&, OperandTypes operands, const Attributes&) {
    return infer_elementwise(operands);
  }
  static IndexLabels labels(OperandTypes operands, const Attributes&) { return elementwise_labels(operands); }
  static OperandReads reads(OperandTypes operands, const Attributes&) { return elementwise_reads(operands); }
  /// A function of which the search knows nothing else; operators of sums and products say more.
  static ExprId expression(ExprBuilder& b, const OpScope&, std::span<const ExprId> e, OperandTypes, const Attributes&) {
    return b.function(Op::traits.name, 0, e, Op::traits.commutative);
  }

  template <class A>
  static void eval(const EvalArgs<A>& args) {
    if constexpr (std::same_as<A, FieldArithmetic>) {
      if (args.arithmetic.free) {
        const uint64_t key = function_key(Op::traits.name, args.attributes);
        return each(args, [&](auto... x) { return args.arithmetic.function(key, {x...}); });
      }
    }
    each(args, [&](auto... x) { return Op::apply(args.arithmetic, args.attributes, x...); });
  }

 protected:
  /// result = f of the operands, entry by entry, broadcast.
  template <class A, class F>
  static void each(const EvalArgs<A>& args, F&& f) {
    static_assert(Arity >= 1 && Arity <= 3);
    auto& result = args.result;
    const auto& x = *args.operands[0];
    if constexpr (Arity == 1) {
      for (int64_t i = 0; i < result.size(); ++i) result[i] = f(x[i]);
    } else if constexpr (Arity == 3) {
      const auto& y = *args.operands[1];
      const auto& z = *args.operands[2];
      const size_t rank = result.shape.size();
      for_each_index<3>(
          result.shape,
          {broadcast_strides(x.shape, rank), broadcast_strides(y.shape, rank), broadcast_strides(z.shape, rank)},
          [&](int64_t i, const std::array<int64_t, 3>& at) { result[i] = f(x[at[0]], y[at[1]], z[at[2]]); });
    } else {
      const auto& y = *args.operands[1];
      const size_t rank = result.shape.size();
      for_each_index<2>(result.shape, {broadcast_strides(x.shape, rank), broadcast_strides(y.shape, rank)},
                        [&](int64_t i, const std::array<int64_t, 2>& at) { result[i] = f(x[at[0]], y[at[1]]); });
    }
  }
};

/// Base of operators of a tensor and a constant, their only attribute; `apply(arithmetic, x, constant)` is the meaning.
template <class Op>
struct ElementwiseWithConstant : Elementwise<Op, 1> {
  template <class A>
  static void eval(const EvalArgs<A>& args) {
    const auto constant = args.arithmetic.constant(args.attributes.rational(Op::attributes[0].name));  // once
    const auto& x = *args.operands[0];
    for (int64_t i = 0; i < args.result.size(); ++i) args.result[i] = Op::apply(args.arithmetic, x[i], constant);
  }
};

constexpr LevelSet kAllLevels{.kernel = true, .block = true, .thread = true};
constexpr LevelSet kKernelAndBlock{.kernel = true, .block = true, .thread = false};
constexpr CudaLowering elementwise_cuda(std::string_view text) { return {CudaLowering::Form::Elementwise, text}; }
constexpr CudaLowering library_cuda(std::string_view name) { return {CudaLowering::Form::Library, name}; }
constexpr CudaLowering structural_cuda() { return {CudaLowering::Form::Structural, ""}; }

}  // namespace strata
