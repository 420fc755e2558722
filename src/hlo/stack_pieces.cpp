#include "hlo/stack_pieces.h"

#include <algorithm>
#include <map>
#include <optional>

#include "hlo/combiner_operator.h"
#include "hlo/compute.h"
#include "hlo/entry_rewriter.h"

namespace strata::hlo {
namespace {

using Pieces = std::vector<InstructionId>;  ///< what stands at one place of each piece's expression

bool all_equal(const Pieces& pieces) {
  return std::adjacent_find(pieces.begin(), pieces.end(), std::not_equal_to<>()) == pieces.end();
}

/// The integer that is no change as the second operand, if there is one.
std::optional<int64_t> changes_nothing(Opcode opcode, ElementType type) {
  switch (opcode) {
    case Opcode::ShiftLeft:
    case Opcode::ShiftRightArithmetic:
    case Opcode::ShiftRightLogical:
    case Opcode::Subtract:
      return 0;
    case Opcode::Divide:
      return 1;
    default:
      break;
  }
  const std::optional<Literal> neutral = neutral_value(opcode, type);
  return neutral ? std::optional(neutral->get_integer(0)) : std::nullopt;
}

class Stacking : EntryRewriter {
 public:
  explicit Stacking(const Module& module) : EntryRewriter(module), multiplied_(from_.instructions.size(), false) {
    for (size_t i = from_.instructions.size(); i-- > 0;) {
      const Instruction& it = from_.instructions[i];
      const bool passes_on = is_elementwise(it.opcode) || it.opcode == Opcode::Reshape ||
                             it.opcode == Opcode::Transpose || it.opcode == Opcode::Copy;
      if (it.opcode != Opcode::Dot && !(multiplied_[i] && passes_on)) continue;
      for (const InstructionId operand : it.operands) multiplied_[static_cast<size_t>(operand)] = true;
    }
  }

  Module run() {
    return rewrite([&](const Instruction& it, const Instruction&) -> std::optional<InstructionId> {
      const bool wanted = it.opcode == Opcode::Concatenate && it.operands.size() > 1 &&
                          multiplied_[static_cast<size_t>(&it - from_.instructions.data())];
      if (!wanted || !it.shape.has_default_layout() || it.shape.element_count() == 0) return std::nullopt;
      const Shape& piece = from_.operand_shape(it, 0);
      const bool equal = std::all_of(it.operands.begin(), it.operands.end(), [&](InstructionId id) {
        return from_[id].shape.dims == piece.dims && from_[id].shape.has_default_layout();
      });
      dim_ = it.dimensions()[0];
      dims_ = piece.dims;
      name_ = it.name;
      steps_.clear();
      attempts_ = 0;
      const Pieces pieces(it.operands.begin(), it.operands.end());
      if (!equal || all_equal(pieces) || !find_steps(pieces)) return std::nullopt;
      const InstructionId all = stacked(pieces);
      return add(it.name + ".pieces", Opcode::Reshape, it.shape, {all});
    });
  }

 private:
  /// How the values at one place come to be: an operator of what stands at others, or integers.
  struct Step {
    Opcode opcode = Opcode::Parameter;
    InstructionId like = 0;           ///< an instruction with this operator
    std::vector<Pieces> operands{};   ///< none of integers and of what all pieces share
    std::vector<int64_t> integers{};  ///< in the place of the second operand
  };

  /// The integer of which an instruction is a broadcast.
  std::optional<int64_t> integer(InstructionId id) const {
    const Instruction& it = from_[id];
    if (it.opcode != Opcode::Broadcast || from_.operand_shape(it, 0).rank() != 0) return std::nullopt;
    const Instruction& of = from_[it.operands[0]];
    const TypeKind kind = hlo::kind(of.shape.type);
    if (of.opcode != Opcode::Constant || (kind != TypeKind::Signed && kind != TypeKind::Unsigned)) return std::nullopt;
    return of.as<ConstantAttributes>().value.get_integer(0);
  }

  /// From an integer to the next one, which wraps around.
  static uint64_t distance_at(const std::vector<int64_t>& integers, size_t i) {
    return static_cast<uint64_t>(integers[i + 1]) - static_cast<uint64_t>(integers[i]);
  }
  static bool at_equal_distances(const std::vector<int64_t>& integers) {
    for (size_t i = 1; i + 1 < integers.size(); ++i) {
      if (distance_at(integers, i) != distance_at(integers, 0)) return false;
    }
    return true;
  }

  /// Whether the pieces are alike at this place and below; `steps_` says how. Scalars beside arrays, as limits of a
  /// clamp may be, are not.
  bool find_steps(const Pieces& pieces) {
    if (!std::all_of(pieces.begin(), pieces.end(), [&](InstructionId id) { return has_dims_of_piece(id); }))
      return false;
    if (all_equal(pieces) || steps_.contains(pieces)) return true;
    constexpr int kMostAttempts = 256;
    if (++attempts_ > kMostAttempts) return false;
    return same_operator(pieces) || filled_operator(pieces);
  }

  bool take(const Pieces& pieces, Step step) {
    for (const Pieces& operand : step.operands) {
      if (!find_steps(operand)) return false;
    }
    steps_.emplace(pieces, std::move(step));
    return true;
  }

  /// All pieces have one operator here.
  bool same_operator(const Pieces& pieces) {
    const Instruction& first = from_[pieces[0]];
    if (!is_elementwise(first.opcode) || first.operands.empty()) return false;
    Step step{first.opcode, pieces[0]};
    step.operands.resize(first.operands.size());
    for (const InstructionId id : pieces) {
      const Instruction& it = from_[id];
      const bool alike = it.opcode == first.opcode && it.shape.type == first.shape.type &&
                         it.operands.size() == first.operands.size() && it.called.empty() &&
                         std::holds_alternative<NoAttributes>(it.attributes);
      if (!alike) return false;
      for (size_t k = 0; k < it.operands.size(); ++k) step.operands[k].push_back(it.operands[k]);
    }
    if (take_integers(pieces, step)) return true;
    return take(pieces, std::move(step));
  }

  /// Some pieces have an operator with an integer here, and others what it is applied to.
  bool filled_operator(const Pieces& pieces) {
    for (const InstructionId like : pieces) {
      const Instruction& some = from_[like];
      if (!is_elementwise(some.opcode) || some.operands.size() != 2 || !integer(some.operands[1])) continue;
      const std::optional<int64_t> nothing = changes_nothing(some.opcode, some.shape.type);
      if (!nothing) continue;
      Step step{some.opcode, like, {{}}};
      for (const InstructionId id : pieces) {
        const Instruction& it = from_[id];
        const bool has = it.opcode == some.opcode && integer(it.operands[1]);
        if (it.shape.type != some.shape.type) return false;
        step.operands[0].push_back(has ? it.operands[0] : id);
        step.integers.push_back(has ? *integer(it.operands[1]) : *nothing);
      }
      if (at_equal_distances(step.integers) && take(pieces, std::move(step))) return true;
    }
    return false;
  }

  /// The same with an operator that all have, whose second operands are integers.
  bool take_integers(const Pieces& pieces, const Step& step) {
    if (step.operands.size() != 2 || all_equal(step.operands[1])) return false;
    Step found{step.opcode, step.like, {step.operands[0]}};
    for (const InstructionId id : step.operands[1]) {
      const std::optional<int64_t> number = integer(id);
      if (!number) return false;
      found.integers.push_back(*number);
    }
    return at_equal_distances(found.integers) && take(pieces, std::move(found));
  }

  bool has_dims_of_piece(InstructionId id) const {
    const Shape& shape = from_[id].shape;
    return shape.is_array() && shape.has_default_layout() && shape.dims == dims_;
  }

  Shape stacked_shape(const Shape& piece, size_t pieces) const {
    std::vector<int64_t> dims = piece.dims;
    dims.insert(dims.begin() + dim_, static_cast<int64_t>(pieces));
    return array_shape(piece.type, std::move(dims));
  }

  InstructionId constant(ElementType type, int64_t value) {
    Literal literal(array_shape(type, {}));
    if (kind(type) == TypeKind::Signed) {
      literal.set(0, value);
    } else {
      literal.set(0, static_cast<uint64_t>(value));
    }
    return add("integer", Opcode::Constant, array_shape(type, {}), {}, ConstantAttributes{literal, false});
  }

  /// first + piece · distance, which wraps around as the type does.
  InstructionId by_piece(ElementType type, const std::vector<int64_t>& integers, const Shape& shape) {
    const Shape line = array_shape(type, {std::ssize(integers)});
    const auto everywhere = [&](int64_t value) {
      return add("integers", Opcode::Broadcast, line, {constant(type, value)}, DimensionsAttributes{});
    };
    const InstructionId piece = add("piece", Opcode::Iota, line, {}, DimensionsAttributes{{0}});
    const InstructionId product =
        add("distances", Opcode::Multiply, line, {piece, everywhere(static_cast<int64_t>(distance_at(integers, 0)))});
    const InstructionId sum = add("by-piece", Opcode::Add, line, {product, everywhere(integers[0])});
    return add("by-pieces", Opcode::Broadcast, array_shape(type, shape.dims), {sum}, DimensionsAttributes{{dim_}});
  }

  InstructionId stacked(const Pieces& pieces) {
    const Instruction& first = from_[pieces[0]];
    const Shape shape = stacked_shape(first.shape, pieces.size());
    if (all_equal(pieces)) {
      std::vector<int64_t> kept;
      for (int64_t d = 0; d < shape.rank(); ++d) {
        if (d != dim_) kept.push_back(d);
      }
      const bool is_scalar = first.opcode == Opcode::Broadcast && from_.operand_shape(first, 0).rank() == 0;
      const InstructionId value = moved_[static_cast<size_t>(is_scalar ? first.operands[0] : pieces[0])];
      return add(name_ + ".shared", Opcode::Broadcast, shape, {value},
                 DimensionsAttributes{is_scalar ? std::vector<int64_t>{} : kept});
    }
    const Step& step = steps_.at(pieces);
    std::vector<InstructionId> operands;
    for (const Pieces& operand : step.operands) operands.push_back(stacked(operand));
    if (!step.integers.empty()) operands.push_back(by_piece(first.shape.type, step.integers, shape));
    return add(name_ + ".stacked", step.opcode, shape, std::move(operands), from_[step.like].attributes);
  }

  std::vector<bool>
      multiplied_;  ///< what a product is computed from by operators each of whose elements is of one of each operand
  std::map<Pieces, Step> steps_;  ///< of the concatenation at hand
  int attempts_ = 0;
  int64_t dim_ = 0;
  std::vector<int64_t> dims_;  ///< of a piece
  std::string name_;
};

}  // namespace

Module stack_pieces(const Module& module) { return Stacking(module).run(); }

}  // namespace strata::hlo
