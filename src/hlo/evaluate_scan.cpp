#include <algorithm>

#include "hlo/evaluate_parts.h"
#include "hlo/expand_scans.h"
#include "hlo/strided.h"

namespace strata::hlo {
namespace {

/// The array of step `i` within one that has all steps along `dimension`.
Strided place_of(const Shape& whole, int64_t dimension, int64_t i) {
  Strided place{0, row_major_strides(whole.dims)};
  const auto at = place.strides.begin() + static_cast<std::ptrdiff_t>(dimension);
  place.offset = i * *at;
  place.strides.erase(at);
  return place;
}

Literal slice_of(const Literal& whole, const Shape& shape, int64_t dimension, int64_t i) {
  Literal slice(shape);
  copy_strided(shape.dims, slice.mutable_bytes(), {0, row_major_strides(shape.dims)}, whole.bytes(),
               place_of(whole.shape(), dimension, i), static_cast<size_t>(byte_width(shape.type)));
  return slice;
}

void put_slice(Literal& whole, const Literal& slice, int64_t dimension, int64_t i) {
  const Shape& shape = slice.shape();
  copy_strided(shape.dims, whole.mutable_bytes(), place_of(whole.shape(), dimension, i), slice.bytes(),
               {0, row_major_strides(shape.dims)}, static_cast<size_t>(byte_width(shape.type)));
}

Shape as_f64(Shape shape) {
  shape.type = ElementType::F64;
  return shape;
}

/// A step of one operator (sums_in_any_grouping) that rounds nothing: its parameters, the operator, and the result.
Computation exact(const Computation& step) {
  Computation made;
  made.name = step.name;
  const auto add = [&](Instruction it, std::vector<InstructionId> operands) {
    it.shape = as_f64(it.shape);
    it.operands = std::move(operands);
    made.instructions.push_back(std::move(it));
    return static_cast<InstructionId>(made.instructions.size()) - 1;
  };
  for (const InstructionId parameter : step.parameters) made.parameters.push_back(add(step[parameter], {}));
  const InstructionId sum = add(step[step.root_instruction().operands[0]], made.parameters);
  Instruction root = step.root_instruction();
  const Shape each = made.instructions[static_cast<size_t>(sum)].shape;
  root.shape = tuple_shape({each, each});
  root.operands = {sum, sum};
  made.instructions.push_back(std::move(root));
  made.root = sum + 1;
  return made;
}

}  // namespace

Result<Literal> evaluate_scan(Evaluator& evaluator, const Computation& step, const Instruction& instruction,
                              const std::vector<Literal>& operands) {
  const auto& how = instruction.as<ScanAttributes>();
  const size_t inputs = operands.size() - static_cast<size_t>(how.carries);
  std::vector<Literal> carries(operands.begin() + static_cast<std::ptrdiff_t>(inputs), operands.end());
  const std::vector<Shape> shapes = result_shapes(instruction.shape);
  std::vector<Literal> results;
  for (size_t i = 0; i < shapes.size() - carries.size(); ++i) results.emplace_back(shapes[i]);
  const int64_t steps = operands[0].shape().dim(how.dimension);
  // Such sums are in double, and each is rounded once.
  const bool wide = sums_in_any_grouping(step, instruction);
  const Computation exact_step = wide ? exact(step) : Computation{};
  const auto as = [](const Literal& value, ElementType type) {
    Shape shape = value.shape();
    shape.type = type;
    return evaluate_convert(value, shape);
  };
  for (Literal& carry : carries) {
    if (wide) carry = as(carry, ElementType::F64);
  }
  for (int64_t n = 0; n < steps; ++n) {
    const int64_t i = how.is_reverse ? steps - 1 - n : n;
    std::vector<Literal> arguments;
    for (size_t k = 0; k < inputs; ++k) {
      arguments.push_back(slice_of(operands[k], step[step.parameters[k]].shape, how.dimension, i));
      if (wide) arguments.back() = as(arguments.back(), ElementType::F64);
    }
    std::move(carries.begin(), carries.end(), std::back_inserter(arguments));
    STRATA_TRY(const Literal result, evaluator.run(wide ? exact_step : step, std::move(arguments)));
    const std::vector<Literal> values = result.shape().is_tuple() ? result.elements() : std::vector<Literal>{result};
    for (size_t k = 0; k < results.size(); ++k)
      put_slice(results[k], wide ? as(values[k], shapes[k].type) : values[k], how.dimension, i);
    carries.assign(values.begin() + static_cast<std::ptrdiff_t>(results.size()), values.end());
  }
  for (size_t k = 0; k < carries.size(); ++k)
    results.push_back(wide ? as(carries[k], shapes[results.size()].type) : std::move(carries[k]));
  return instruction.shape.is_tuple() ? Literal::tuple(std::move(results)) : std::move(results[0]);
}

}  // namespace strata::hlo
