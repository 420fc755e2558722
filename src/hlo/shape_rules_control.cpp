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
    case Opcode::Tuple: {
      std::vector<Shape> elements;
      for (size_t i = 0; i < context.operand_count(); ++i) elements.push_back(context.operand(i));
      return tuple_shape(std::move(elements));
    }
    case Opcode::While:
      return infer_while(context);
    default:
      return context.operand(0);  // add-dependency, opt-barrier
  }
}

}  // namespace strata::hlo
