#include "hlo/optional_combiner.h"

#include <string>

namespace strata::hlo {

Computation optional_combiner(const Computation& combiner) {
  Computation made;
  made.name = "if_any_" + combiner.name;
  const auto append = [&](std::string name, Opcode opcode, Shape shape, std::vector<InstructionId> operands,
                          Attributes attributes) {
    made.instructions.push_back(
        {std::move(name), opcode, std::move(shape), std::move(operands), {}, std::move(attributes), {}});
    return static_cast<InstructionId>(made.instructions.size()) - 1;
  };
  const size_t count = combiner.parameters.size() / 2;
  const Shape flag = array_shape(ElementType::Pred, {});
  std::vector<InstructionId> moved(combiner.instructions.size(), -1);
  for (size_t side = 0; side < 2; ++side) {
    for (size_t i = 0; i <= count; ++i) {
      const auto number = static_cast<int64_t>(made.parameters.size());
      const size_t own = side * count + i - (i > 0 ? 1 : 0);
      const Shape shape = i == 0 ? flag : combiner[combiner.parameters[own]].shape;
      made.parameters.push_back(
          append("p" + std::to_string(number), Opcode::Parameter, shape, {}, ParameterAttributes{number}));
      if (i > 0) moved[static_cast<size_t>(combiner.parameters[own])] = made.parameters.back();
    }
  }
  for (size_t i = 0; i < combiner.instructions.size(); ++i) {
    const Instruction& it = combiner.instructions[i];
    if (moved[i] >= 0 || it.opcode == Opcode::Tuple) continue;
    std::vector<InstructionId> operands;
    for (const InstructionId operand : it.operands) operands.push_back(moved[static_cast<size_t>(operand)]);
    moved[i] =
        append("c" + std::to_string(made.instructions.size()), it.opcode, it.shape, std::move(operands), it.attributes);
  }
  const InstructionId has_a = made.parameters[0], has_b = made.parameters[count + 1];
  std::vector<InstructionId> roots{append("any", Opcode::Or, flag, {has_a, has_b}, NoAttributes{})};
  std::vector<Shape> shapes{flag};
  const Instruction& root = combiner.root_instruction();
  for (size_t i = 0; i < count; ++i) {
    const InstructionId both = moved[static_cast<size_t>(count == 1 ? combiner.root : root.operands[i])];
    const InstructionId a = made.parameters[1 + i], b = made.parameters[count + 2 + i];
    const std::string name = std::to_string(i);
    shapes.push_back(made[both].shape);
    const InstructionId then =
        append("with_a" + name, Opcode::Select, made[both].shape, {has_a, both, b}, NoAttributes{});
    roots.push_back(append("with" + name, Opcode::Select, made[both].shape, {has_b, then, a}, NoAttributes{}));
  }
  made.root = append("all", Opcode::Tuple, tuple_shape(std::move(shapes)), roots, NoAttributes{});
  return made;
}

bool is_optional_combiner(const Computation& computation) {
  const Instruction& root = computation.root_instruction();
  if (root.opcode != Opcode::Tuple || root.operands.size() < 2 ||
      computation.parameters.size() != 2 * root.operands.size())
    return false;
  const size_t count = root.operands.size();
  const InstructionId has_a = computation.parameters[0], has_b = computation.parameters[count];
  const Instruction& any = computation[root.operands[0]];
  if (any.opcode != Opcode::Or || any.shape.type != ElementType::Pred || any.operands != std::vector{has_a, has_b})
    return false;
  for (size_t i = 1; i < count; ++i) {
    const InstructionId a = computation.parameters[i], b = computation.parameters[count + i];
    const Instruction& outer = computation[root.operands[i]];
    if (outer.opcode != Opcode::Select || outer.operands[0] != has_b || outer.operands[2] != a) return false;
    const Instruction& inner = computation[outer.operands[1]];
    if (inner.opcode != Opcode::Select || inner.operands[0] != has_a || inner.operands[2] != b) return false;
  }
  return true;
}

}  // namespace strata::hlo
