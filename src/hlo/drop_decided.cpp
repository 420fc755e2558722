#include "hlo/drop_decided.h"

#include <cstring>
#include <optional>

#include "hlo/entry_rewriter.h"
#include "hlo/evaluate_operator.h"

namespace strata::hlo {
namespace {

class Decider : EntryRewriter {
 public:
  explicit Decider(const Module& module) : EntryRewriter(module) {}

  Module run() {
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      const auto id = static_cast<InstructionId>(&it - from_.instructions.data());
      if (id == from_.root || !it.shape.is_array() || !is_elementwise(it.opcode)) return std::nullopt;
      if (const std::optional<InstructionId> one = decided(copy)) return one;
      return computed(copy);
    });
  }

 private:
  /// The number that all elements are, as a scalar.
  std::optional<Literal> everywhere(InstructionId id) const {
    const auto moves = [](const Instruction& it) {
      return it.opcode == Opcode::Broadcast || it.opcode == Opcode::Reshape || it.opcode == Opcode::Transpose ||
             it.opcode == Opcode::Slice || it.opcode == Opcode::Copy;
    };
    while (moves(entry_[id])) id = entry_[id].operands[0];
    const Instruction& it = entry_[id];
    if (it.opcode != Opcode::Constant || !it.shape.is_array() || it.shape.element_count() == 0) return std::nullopt;
    const auto& constant = it.as<ConstantAttributes>();
    const auto width = static_cast<size_t>(byte_width(it.shape.type));
    const Literal& all = constant.value;
    if (constant.elided || std::memcmp(all.bytes(), all.bytes() + width, all.byte_size() - width) != 0)
      return std::nullopt;
    Literal one(array_shape(it.shape.type, {}));
    std::memcpy(one.mutable_bytes(), all.bytes(), width);
    return one;
  }

  std::optional<int64_t> integer_everywhere(InstructionId id) const {
    const TypeKind type = kind(shape(id).type);
    if (type != TypeKind::Pred && type != TypeKind::Signed && type != TypeKind::Unsigned) return std::nullopt;
    const std::optional<Literal> value = everywhere(id);
    return value ? std::optional(value->get_integer(0)) : std::nullopt;
  }

  std::optional<InstructionId> decided(const Instruction& it) {
    switch (it.opcode) {
      case Opcode::And:
      case Opcode::Or:
        return it.shape.type == ElementType::Pred ? decided_by_one(it, it.opcode == Opcode::And) : std::nullopt;
      case Opcode::Select: {
        const std::optional<int64_t> which = integer_everywhere(it.operands[0]);
        return which ? as_it_is(it, it.operands[*which != 0 ? 1 : 2]) : std::nullopt;
      }
      case Opcode::Compare: {
        using Direction = CompareAttributes::Direction;
        if (!is_unsigned(shape(it.operands[0]).type)) return std::nullopt;
        const Direction direction = it.as<CompareAttributes>().direction;
        const auto is_zero = [&](size_t operand) { return integer_everywhere(it.operands[operand]) == 0; };
        if ((direction == Direction::LT && is_zero(1)) || (direction == Direction::GT && is_zero(0)))
          return truth(it, false);
        if ((direction == Direction::GE && is_zero(1)) || (direction == Direction::LE && is_zero(0)))
          return truth(it, true);
        return std::nullopt;
      }
      default:
        return std::nullopt;
    }
  }

  /// Of `and` (`or`): false (true) decides, and the other one changes nothing.
  std::optional<InstructionId> decided_by_one(const Instruction& it, bool is_and) const {
    for (const size_t k : {size_t{0}, size_t{1}}) {
      const std::optional<int64_t> value = integer_everywhere(it.operands[k]);
      if (value) return as_it_is(it, it.operands[(*value != 0) == is_and ? 1 - k : k]);
    }
    return std::nullopt;
  }

  std::optional<InstructionId> as_it_is(const Instruction& it, InstructionId operand) const {
    return shape(operand) == it.shape ? std::optional(operand) : std::nullopt;
  }

  InstructionId truth(const Instruction& it, bool value) {
    Literal literal(array_shape(ElementType::Pred, {}));
    *literal.mutable_bytes() = static_cast<std::byte>(value ? 1 : 0);
    return spread(it, literal);
  }

  InstructionId spread(const Instruction& it, const Literal& scalar) {
    const InstructionId one =
        add(it.name + ".everywhere", Opcode::Constant, scalar.shape(), {}, ConstantAttributes{scalar, false});
    return add(it.name, Opcode::Broadcast, it.shape, {one}, DimensionsAttributes{});
  }

  /// One number of numbers that are the same everywhere.
  std::optional<InstructionId> computed(const Instruction& it) {
    if (it.shape.element_count() == 1) return std::nullopt;  // fold_constants.h
    Instruction one = it;
    one.shape = array_shape(it.shape.type, {});
    std::vector<Literal> operands;
    for (const InstructionId operand : it.operands) {
      const std::optional<Literal> known = everywhere(operand);
      if (!known) return std::nullopt;
      operands.push_back(*known);
    }
    const Result<Literal> value = evaluate_operator(std::move(one), operands);
    return value ? std::optional(spread(it, *value)) : std::nullopt;
  }
};

}  // namespace

Module drop_decided(const Module& module) { return Decider(module).run(); }

}  // namespace strata::hlo
