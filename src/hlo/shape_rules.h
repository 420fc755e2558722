// The shape of an instruction's result, from its operands and attributes; what verify.cpp compares the text with.
#pragma once

#include "hlo/hlo.h"

namespace strata::hlo {

/// One instruction under its rule.
struct RuleContext {
  const Module& module;
  const Computation& computation;
  const Instruction& instruction;

  const Shape& operand(size_t i) const { return computation.operand_shape(instruction, i); }
  size_t operand_count() const { return instruction.operands.size(); }
  const Computation& called(size_t i = 0) const { return module[instruction.called[i]]; }
};

/// Each infers the shape for the opcodes of its families; the number of operands is right already, and where an
/// operator takes arrays, they are. Where a rule leaves something to the text (a type, the sizes of a reshape), that
/// is taken from instruction.shape.
Result<Shape> infer_elementwise(const RuleContext& context);
Result<Shape> infer_movement(const RuleContext& context);
Result<Shape> infer_contraction(const RuleContext& context);
Result<Shape> infer_computing(const RuleContext& context);
Result<Shape> infer_linear_algebra(const RuleContext& context);
Result<Shape> infer_normalisation(const RuleContext& context);
Result<Shape> infer_control(const RuleContext& context);

/// Whether an operator of the families Unary to Conversion is defined for a type; of select and clamp the type of the
/// values, of convert the operand's.
bool is_defined_for(Opcode opcode, ElementType type);

/// Distinct numbers in 0 … rank - 1; `what` names them in the error.
Result<void> check_dimensions(const std::vector<int64_t>& dims, int64_t rank, std::string_view what);
/// Sizes and window properties small enough that products of two fit 63 bits; sizes, strides and dilations positive.
Result<void> check_window(const std::vector<WindowDimension>& window, const std::vector<int64_t>& dims);
/// The number of places of a window along a dimension of a size.
int64_t window_output_size(int64_t size, const WindowDimension& window);
/// The called computation takes scalars of `parameters` and returns a scalar, or a tuple of scalars, of `results`.
Result<void> check_scalar_computation(const Computation& computation, const std::vector<ElementType>& parameters,
                                      const std::vector<ElementType>& results);
/// The array, or the tuple where there is more than one: what variadic operators return.
Shape one_or_tuple(std::vector<Shape> shapes);

}  // namespace strata::hlo
