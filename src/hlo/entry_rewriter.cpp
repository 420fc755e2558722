#include "hlo/entry_rewriter.h"

#include "hlo/compute.h"
#include "hlo/inline_calls.h"

namespace strata::hlo {

PadAttributes padding_to(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  const std::vector<int64_t> none(from.size(), 0);
  PadAttributes pad{none, none, none};
  for (size_t d = 0; d < from.size(); ++d) pad.high[d] = to[d] - from[d];
  return pad;
}

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

InstructionId EntryRewriter::resized(InstructionId array, const std::vector<int64_t>& to) {
  const Shape from = shape(array);
  if (from.dims == to) return array;
  return add(entry_[array].name + ".resized", Opcode::Pad, array_shape(from.type, to), {array, zero(from.type)},
             padding_to(from.dims, to));
}

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

InstructionId EntryRewriter::repeated(const std::string& base, InstructionId array, size_t dimension, int64_t times) {
  const ElementType type = shape(array).type;
  std::vector<int64_t> dims = shape(array).dims, in_turn = dims, kept;
  in_turn.insert(in_turn.begin() + static_cast<std::ptrdiff_t>(dimension), times);
  for (size_t k = 0; k < in_turn.size(); ++k) {
    if (k != dimension) kept.push_back(static_cast<int64_t>(k));
  }
  dims[dimension] *= times;
  const InstructionId each =
      add(base + ".in-turn", Opcode::Broadcast, array_shape(type, in_turn), {array}, DimensionsAttributes{kept});
  return add(base + ".repeated", Opcode::Reshape, array_shape(type, dims), {each});
}

}  // namespace strata::hlo
