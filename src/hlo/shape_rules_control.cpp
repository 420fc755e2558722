#include "hlo/shape_rules.h"

namespace strata::hlo {
namespace {

Result<void> check_arguments(const Computation& callee, const std::vector<Shape>& arguments) {
  if (callee.parameters.size() != arguments.size()) {
    return invalid("'{}' has {} parameters, and is called with {}", callee.name, callee.parameters.size(),
                   arguments.size());
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Shape& parameter = callee[callee.parameters[i]].shape;
    if (!same_shape(parameter, arguments[i])) {
      return invalid("parameter {} of '{}' is {}, and is given {}", i, callee.name, to_string_without_layout(parameter),
                     to_string_without_layout(arguments[i]));
    }
  }
  return {};
}

Result<Shape> infer_while(const RuleContext& context) {
  const Shape& state = context.operand(0);
  const Computation& condition = context.called(0);
  const Computation& body = context.called(1);
  STRATA_CHECK(check_arguments(condition, {state}));
  STRATA_CHECK(check_arguments(body, {state}));
  if (!same_shape(condition.root_instruction().shape, array_shape(ElementType::Pred, {}))) {
    return invalid("the condition '{}' returns {}, not pred[]", condition.name,
                   to_string_without_layout(condition.root_instruction().shape));
  }
  if (!same_shape(body.root_instruction().shape, state)) {
    return invalid("the body '{}' returns another shape than it takes", body.name);
  }
  return state;
}

Result<Shape> infer_conditional(const RuleContext& context) {
  const size_t branches = context.instruction.called.size();
  if (context.operand_count() != branches + 1) {
    return invalid("it has {} branches and {} operands for them", branches, context.operand_count() - 1);
  }
  const Shape& selector = context.operand(0);
  const bool is_pred = same_shape(selector, array_shape(ElementType::Pred, {}));
  if (!is_pred && !same_shape(selector, array_shape(ElementType::S32, {}))) {
    return invalid("the selector is {}, not pred[] or s32[]", to_string_without_layout(selector));
  }
  if (is_pred && branches != 2) return invalid("a pred selects between two branches, not {}", branches);
  for (size_t i = 0; i < branches; ++i) {
    STRATA_CHECK(check_arguments(context.called(i), {context.operand(i + 1)}));
    if (!same_shape(context.called(i).root_instruction().shape, context.called(0).root_instruction().shape)) {
      return invalid("branches 0 and {} return different shapes", i);
    }
  }
  return context.called(0).root_instruction().shape;
}

Result<Shape> infer_scan(const RuleContext& context) {
  const auto& how = context.instruction.as<ScanAttributes>();
  const auto operands = static_cast<int64_t>(context.operand_count());
  if (how.carries < 0 || how.carries >= operands)
    return invalid("it has {} operands, of which {} cannot be carries", operands, how.carries);
  const auto inputs = static_cast<size_t>(operands - how.carries);
  std::vector<Shape> arguments;
  for (size_t i = 0; i < context.operand_count(); ++i) {
    Shape shape = context.operand(i);
    if (!shape.is_array()) return invalid("operand {} is {}, not an array", i, to_string_without_layout(shape));
    if (i < inputs) {
      STRATA_CHECK(check_dimensions({how.dimension}, shape.rank(), "the dimension"));
      if (shape.dim(how.dimension) != context.operand(0).dim(how.dimension))
        return invalid("operands 0 and {} have different numbers of steps", i);
      shape.dims.erase(shape.dims.begin() + static_cast<std::ptrdiff_t>(how.dimension));
    }
    arguments.push_back(array_shape(shape.type, shape.dims));
  }
  const Computation& step = context.called();
  STRATA_CHECK(check_arguments(step, arguments));
  const Shape& root = step.root_instruction().shape;
  std::vector<Shape> results = root.is_tuple() ? root.elements.list() : std::vector<Shape>{root};
  if (static_cast<int64_t>(results.size()) < how.carries)
    return invalid("'{}' returns {} values, fewer than the {} carries", step.name, results.size(), how.carries);
  const size_t outputs = results.size() - static_cast<size_t>(how.carries);
  for (size_t i = 0; i < results.size(); ++i) {
    Shape& shape = results[i];
    if (!shape.is_array()) return invalid("'{}' returns {}, not an array", step.name, to_string_without_layout(shape));
    if (i >= outputs) {
      if (!same_shape(shape, arguments[inputs + i - outputs])) {
        return invalid("the carry {} is {}, and '{}' returns {}", i - outputs,
                       to_string_without_layout(arguments[inputs + i - outputs]), step.name,
                       to_string_without_layout(shape));
      }
      continue;
    }
    if (how.dimension > shape.rank())
      return invalid("the result {} of '{}' has no place for dimension {}", i, step.name, how.dimension);
    std::vector<int64_t> dims = shape.dims;
    dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(how.dimension), context.operand(0).dim(how.dimension));
    shape = array_shape(shape.type, std::move(dims));
  }
  return root.is_tuple() ? tuple_shape(std::move(results)) : results[0];
}

}  // namespace

Result<Shape> infer_control(const RuleContext& context) {
  const Instruction& instruction = context.instruction;
  switch (instruction.opcode) {
    case Opcode::AfterAll:
      return token_shape();
    case Opcode::Call:
    case Opcode::Fusion: {
      std::vector<Shape> arguments;
      for (size_t i = 0; i < context.operand_count(); ++i) arguments.push_back(context.operand(i));
      STRATA_CHECK(check_arguments(context.called(), arguments));
      return context.called().root_instruction().shape;
    }
    case Opcode::Conditional:
      if (context.operand_count() == 0) return invalid("it needs a selector");
      return infer_conditional(context);
    case Opcode::GetTupleElement: {
      const Shape& tuple = context.operand(0);
      const int64_t index = instruction.as<TupleIndexAttributes>().index;
      if (!tuple.is_tuple() || index < 0 || index >= static_cast<int64_t>(tuple.elements.size())) {
        return invalid("{} has no element {}", to_string_without_layout(tuple), index);
      }
      return tuple.elements[static_cast<size_t>(index)];
    }
    case Opcode::RngBitGenerator: {
      const Shape& state = context.operand(0);
      const Shape& stated = instruction.shape;
      const bool is_state = same_shape(state, array_shape(ElementType::U64, {2})) ||
                            same_shape(state, array_shape(ElementType::U64, {3}));
      if (!is_state) return invalid("the state is {}, not u64[2] or u64[3]", to_string_without_layout(state));
      const bool threefry = instruction.as<RandomAttributes>().algorithm == RandomAttributes::Algorithm::ThreeFry;
      if (threefry && state.dims[0] != 2) return invalid("the state of rng_three_fry is u64[2]");
      const bool makes_bits =
          stated.elements.size() == 2 && is_integer(stated.elements[1].type) && bit_width(stated.elements[1].type) >= 8;
      if (!makes_bits) return invalid("it makes a state and an array of integers of 8 bits or more");
      return tuple_shape({state, stated.elements[1]});
    }
    case Opcode::Scan:
      return infer_scan(context);
    case Opcode::Tuple: {
      std::vector<Shape> elements;
      for (size_t i = 0; i < context.operand_count(); ++i) elements.push_back(context.operand(i));
      Shape shape = tuple_shape(std::move(elements));
      if (shape.elements.depth() > kMaxTupleDepth) return unsupported("tuples are nested too deeply");
      if (shape.elements.total() >= kManyShapes) return unsupported("a tuple has 2^22 elements or more in all");
      return shape;
    }
    case Opcode::While:
      return infer_while(context);
    default:
      return context.operand(0);  // add-dependency, opt-barrier
  }
}

}  // namespace strata::hlo
