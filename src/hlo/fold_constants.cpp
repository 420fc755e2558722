#include "hlo/fold_constants.h"

#include <algorithm>
#include <map>

#include "hlo/element_work.h"
#include "hlo/entry_rewriter.h"
#include "hlo/evaluate_operator.h"

namespace strata::hlo {
namespace {

constexpr int64_t kMostElements = 64;

bool is_folded(Opcode opcode) {
  switch (opcode) {
    case Opcode::BitcastConvert:
    case Opcode::Broadcast:
    case Opcode::Concatenate:
    case Opcode::Copy:
    case Opcode::DynamicSlice:
    case Opcode::Reshape:
    case Opcode::Reverse:
    case Opcode::Slice:
    case Opcode::Transpose:
      return true;
    default:
      return is_elementwise(opcode);
  }
}

class ConstantFolder : EntryRewriter {
 public:
  explicit ConstantFolder(const Module& module) : EntryRewriter(module) { mark_results(from_.root); }

  Module run() {
    return rewrite([this](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      if (!(is_folded(it.opcode) || it.opcode == Opcode::Iota) || !is_small(it.shape)) return std::nullopt;
      const bool all_constants =
          std::ranges::all_of(copy.operands, [this](InstructionId id) { return is_constant(entry_[id]); });
      if (!std::ranges::all_of(copy.operands, [this](InstructionId id) { return known(id) != nullptr; }))
        return std::nullopt;
      const Result<Literal> value = value_of(copy);
      if (!value) return std::nullopt;
      // A scalar everywhere is known as such.
      const bool spreads = it.opcode == Opcode::Broadcast && it.shape.element_count() > 1;
      const bool stays = results_[moved_.size()] || it.opcode == Opcode::Iota || spreads;
      Known one{*value, is_elementwise(it.opcode) ? element_operations(from_, it) : 0};
      for (const InstructionId operand : copy.operands) one.operations += known(operand)->operations;
      if (stays || !(all_constants || is_table(copy, one.operations))) {
        known_.emplace(static_cast<InstructionId>(entry_.instructions.size()), std::move(one));
        return std::nullopt;
      }
      const InstructionId constant =
          add(it.name, Opcode::Constant, it.shape, {}, ConstantAttributes{value->with_shape(it.shape), false});
      const bool is_array = it.shape.element_count() > 1;
      known_.emplace(constant, Known{*value, is_array ? kLoad : 0});
      return constant;
    });
  }

 private:
  /// What a known value is, and what computing an element of it takes.
  struct Known {
    Literal value;
    double operations = 0;
  };
  /// What reading an element of an array takes: all threads load 10 bytes in the time of 30 operations.
  static constexpr double kLoad = 12;

  static bool is_small(const Shape& shape) { return shape.is_array() && shape.element_count() <= kMostElements; }
  static bool is_constant(const Instruction& it) {
    return it.opcode == Opcode::Constant && is_small(it.shape) && !it.as<ConstantAttributes>().elided;
  }

  /// Whether an array computed of iotas and numbers is better read. Masks and places, which other passes know by what
  /// they are computed of, are no floats; but pieces of a concatenation are branches for each that reads it.
  static bool is_table(const Instruction& it, double operations) {
    if (it.opcode == Opcode::Concatenate) return true;
    const TypeKind type = kind(it.shape.type);
    return (type == TypeKind::Float || type == TypeKind::Complex) && operations > kLoad;
  }

  /// Of an instruction of the new entry: null where it is not known.
  const Known* known(InstructionId id) {
    const auto found = known_.find(id);
    if (found != known_.end()) return &found->second;
    const Instruction& it = entry_[id];
    if (!is_constant(it)) return nullptr;
    const double operations = it.shape.element_count() > 1 ? kLoad : 0;
    return &known_.emplace(id, Known{it.as<ConstantAttributes>().value, operations}).first->second;
  }

  /// What tuples pass on to the root.
  void mark_results(InstructionId id) {
    if (results_.empty()) results_.assign(from_.instructions.size(), false);
    results_[static_cast<size_t>(id)] = true;
    if (from_[id].opcode != Opcode::Tuple && from_[id].opcode != Opcode::GetTupleElement) return;
    for (const InstructionId operand : from_[id].operands) mark_results(operand);
  }

  /// Of an instruction of the new entry whose operands are known.
  Result<Literal> value_of(const Instruction& it) {
    std::vector<Literal> operands;
    for (const InstructionId operand : it.operands)
      operands.push_back(known(operand)->value.with_shape(entry_[operand].shape));
    return evaluate_operator(it, operands);
  }

  std::vector<bool> results_;             ///< by instruction of `from_`
  std::map<InstructionId, Known> known_;  ///< by instruction of the new entry
};

}  // namespace

Module fold_constants(const Module& module) { return ConstantFolder(module).run(); }

}  // namespace strata::hlo
