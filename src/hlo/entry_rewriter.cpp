#include "hlo/entry_rewriter.h"

#include "hlo/compute.h"
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

InstructionId EntryRewriter::scalar(const std::string& base, ElementType type, double value) {
  const Shape shape = array_shape(type, {});
  Literal literal(shape);
  visit_accumulator_type(type, [&](auto zero) { literal.set(0, static_cast<decltype(zero)>(value)); });
  return add(base, Opcode::Constant, shape, {}, ConstantAttributes{literal, false});
}

InstructionId EntryRewriter::zero(ElementType type) { return scalar("zero", type, 0); }

InstructionId EntryRewriter::masked(InstructionId array, int64_t dimension, int64_t size, double number) {
  const Shape all = shape(array);
  const auto as = [&](ElementType type) { return array_shape(type, all.dims); };
  const auto everywhere = [&](InstructionId of) {
    return add(entry_[of].name + ".everywhere", Opcode::Broadcast, as(shape(of).type), {of}, DimensionsAttributes{});
  };
  const InstructionId end = everywhere(scalar("end", ElementType::S32, static_cast<double>(size)));
  const InstructionId index = add("index", Opcode::Iota, as(ElementType::S32), {}, DimensionsAttributes{{dimension}});
  const InstructionId inside = add("inside", Opcode::Compare, as(ElementType::Pred), {index, end},
                                   CompareAttributes{CompareAttributes::Direction::LT});
  const InstructionId beyond = everywhere(scalar("beyond", all.type, number));
  return add(entry_[array].name + ".masked", Opcode::Select, all, {inside, array, beyond});
}

}  // namespace strata::hlo
