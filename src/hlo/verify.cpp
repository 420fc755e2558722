#include "hlo/verify.h"

#include <algorithm>

#include "hlo/shape_rules.h"

namespace strata::hlo {
namespace {

Result<void> check_called_count(const Instruction& instruction) {
  const size_t count = instruction.called.size();
  const bool good = [&] {
    switch (instruction.opcode) {
      case Opcode::While:
      case Opcode::SelectAndScatter:
        return count == 2;
      case Opcode::Conditional:
        return count >= 1;
      case Opcode::Call:
      case Opcode::Fusion:
      case Opcode::Map:
      case Opcode::Reduce:
      case Opcode::ReduceWindow:
      case Opcode::Scan:
      case Opcode::Scatter:
      case Opcode::Sort:
        return count == 1;
      default:
        return count == 0 || family(instruction.opcode) == Family::Unsupported;
    }
  }();
  if (!good) return invalid("{} calls {} computations", name(instruction.opcode), count);
  return {};
}

Result<Shape> infer(const RuleContext& context) {
  const Instruction& instruction = context.instruction;
  const bool takes_values = family(instruction.opcode) == Family::Control;
  for (size_t i = 0; i < context.operand_count() && !takes_values; ++i) {
    const Shape& shape = context.operand(i);
    const bool copied_tuple = instruction.opcode == Opcode::Copy;
    if (!shape.is_array() && !copied_tuple) {
      return invalid("operand {} is {}, not an array", i, to_string_without_layout(shape));
    }
  }
  switch (family(instruction.opcode)) {
    case Family::Unary:
    case Family::Binary:
    case Family::Ternary:
    case Family::Conversion:
    case Family::Leaf:
      return infer_elementwise(context);
    case Family::Movement:
      return infer_movement(context);
    case Family::Contraction:
      return infer_contraction(context);
    case Family::Computing:
      return infer_computing(context);
    case Family::LinearAlgebra:
      return infer_linear_algebra(context);
    case Family::Normalisation:
      return infer_normalisation(context);
    case Family::Control:
      return infer_control(context);
    case Family::Unsupported:
      break;
  }
  return instruction.shape;
}

Result<Shape> check_and_infer(const RuleContext& context) {
  const Instruction& instruction = context.instruction;
  const int operands = arity(instruction.opcode);
  if (operands >= 0 && static_cast<int>(context.operand_count()) != operands) {
    return invalid("it takes {} operand{}, and has {}", operands, operands == 1 ? "" : "s", context.operand_count());
  }
  if (family(instruction.opcode) == Family::Unsupported) return instruction.shape;
  STRATA_CHECK(check_called_count(instruction));
  return infer(context);
}

Result<void> check(const RuleContext& context) {
  STRATA_TRY(const Shape shape, check_and_infer(context));
  if (!same_shape(shape, context.instruction.shape)) {
    return invalid("it is stated to be {}; its operands make it {}",
                   to_string_without_layout(context.instruction.shape), to_string_without_layout(shape));
  }
  return {};
}

}  // namespace

Result<void> check_dimensions(const std::vector<int64_t>& dims, int64_t rank, std::string_view what) {
  std::vector<bool> seen(static_cast<size_t>(rank));
  for (int64_t d : dims) {
    if (d < 0 || d >= rank) return invalid("{} {} is outside the {} dimensions", what, d, rank);
    if (seen[static_cast<size_t>(d)]) return invalid("{} {} is listed twice", what, d);
    seen[static_cast<size_t>(d)] = true;
  }
  return {};
}

Result<void> check_window(const std::vector<WindowDimension>& window, const std::vector<int64_t>& dims) {
  constexpr int64_t kLimit = int64_t{1} << 31;
  if (window.size() != dims.size()) {
    return invalid("the window has {} dimensions, and the operand {}", window.size(), dims.size());
  }
  for (const WindowDimension& w : window) {
    for (int64_t value : {w.size, w.stride, w.lhs_dilate, w.rhs_dilate}) {
      if (value < 1 || value >= kLimit) return invalid("{} in the window is not between 1 and 2^31", value);
    }
    if (std::max(std::abs(w.pad_low), std::abs(w.pad_high)) >= kLimit) {
      return invalid("the window's padding is 2^31 or more");
    }
  }
  for (int64_t size : dims) {
    if (size >= kLimit) return invalid("a dimension under a window has 2^31 elements or more");
  }
  return {};
}

int64_t window_output_size(int64_t size, const WindowDimension& window) {
  const int64_t dilated = size == 0 ? 0 : (size - 1) * window.lhs_dilate + 1;
  const int64_t padded = dilated + window.pad_low + window.pad_high;
  const int64_t extent = (window.size - 1) * window.rhs_dilate + 1;
  return padded < extent ? 0 : (padded - extent) / window.stride + 1;
}

Result<void> check_scalar_computation(const Computation& computation, const std::vector<ElementType>& parameters,
                                      const std::vector<ElementType>& results) {
  std::vector<Shape> expected;
  for (ElementType type : results) expected.push_back(array_shape(type, {}));
  const Shape result = one_or_tuple(std::move(expected));
  const Shape& root = computation.root_instruction().shape;
  if (!same_shape(root, result)) {
    return invalid("the computation '{}' returns {}, not {}", computation.name, to_string_without_layout(root),
                   to_string_without_layout(result));
  }
  if (computation.parameters.size() != parameters.size()) {
    return invalid("the computation '{}' has {} parameters, not {}", computation.name, computation.parameters.size(),
                   parameters.size());
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Shape& shape = computation[computation.parameters[i]].shape;
    if (!same_shape(shape, array_shape(parameters[i], {}))) {
      return invalid("parameter {} of the computation '{}' is {}, not {}[]", i, computation.name,
                     to_string_without_layout(shape), name(parameters[i]));
    }
  }
  return {};
}

Shape one_or_tuple(std::vector<Shape> shapes) {
  return shapes.size() == 1 ? std::move(shapes.front()) : tuple_shape(std::move(shapes));
}

Result<void> verify_instruction(const Module& module, const Computation& computation, const Instruction& instruction) {
  auto result = check({module, computation, instruction});
  if (result) return {};
  return tl::unexpected(of_instruction(result.error(), instruction));
}

Error of_instruction(const Error& error, const Instruction& instruction) {
  const std::string_view opcode = name(instruction.opcode);
  Error result =
      error.within(instruction.name.empty() ? std::string(opcode) : fmt::format("{} = {}", instruction.name, opcode));
  if (result.remedy.empty())
    result.remedy = fmt::format("give {} what HLO's rule for it takes; a result's shape may be left out", opcode);
  return result.at(instruction.location);
}

Result<Shape> infer_shape(const Module& module, const Computation& computation, const Instruction& instruction) {
  return check_and_infer({module, computation, instruction});
}

Result<void> verify(const Module& module) {
  for (const Computation& computation : module.computations) {
    for (const Instruction& instruction : computation.instructions) {
      STRATA_CHECK(verify_instruction(module, computation, instruction));
    }
  }
  return {};
}

}  // namespace strata::hlo
