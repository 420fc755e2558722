#include "hlo/entry_rewriter.h"

#include "hlo/inline_calls.h"

namespace strata::hlo {

Module EntryRewriter::rewrite(const Replaced& replaced) {
  entry_.name = from_.name;
  for (const Instruction& it : from_.instructions) names_.insert(it.name);
  bool changed = false;
  for (const Instruction& it : from_.instructions) {
    Instruction copy = it;
    for (InstructionId& operand : copy.operands) operand = moved_[static_cast<size_t>(operand)];
    const auto before = static_cast<InstructionId>(entry_.instructions.size());
    if (const std::optional<InstructionId> other = replaced(it, copy)) {
      moved_.push_back(*other);
      // What was there before has a name of its own: a parameter's is how callers know it.
      if (*other >= before) entry_.instructions[static_cast<size_t>(*other)].name = it.name;
      changed = true;
    } else {
      moved_.push_back(append(std::move(copy)));
    }
  }
  if (!changed) return std::move(result_);
  for (const InstructionId id : from_.parameters) entry_.parameters.push_back(moved_[static_cast<size_t>(id)]);
  entry_.root = moved_[static_cast<size_t>(from_.root)];
  return extract_module(result_, entry_);
}

InstructionId EntryRewriter::append(Instruction it) {
  entry_.instructions.push_back(std::move(it));
  return static_cast<InstructionId>(entry_.instructions.size()) - 1;
}

InstructionId EntryRewriter::add(const std::string& base, Opcode opcode, Shape shape,
                                 std::vector<InstructionId> operands, Attributes attributes,
                                 std::vector<ComputationId> called) {
  Instruction it{base, opcode, std::move(shape), std::move(operands), std::move(called), std::move(attributes), {}};
  for (int n = 1; !names_.insert(it.name).second; ++n) it.name = base + "." + std::to_string(n);
  return append(std::move(it));
}

InstructionId EntryRewriter::zero(ElementType type) {
  const Shape scalar = array_shape(type, {});
  return add("zero", Opcode::Constant, scalar, {}, ConstantAttributes{Literal(scalar), false});
}

}  // namespace strata::hlo
