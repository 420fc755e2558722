#include "hlo/fold_constants.h"

#include <algorithm>

#include "hlo/entry_rewriter.h"
#include "hlo/evaluate.h"

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
      // A scalar everywhere is known as such.
      const bool spreads = it.opcode == Opcode::Broadcast && it.shape.element_count() > 1;
      if (results_[static_cast<size_t>(moved_.size())] || !is_folded(it.opcode) || !is_small(it.shape) || spreads ||
          !std::ranges::all_of(copy.operands, [this](InstructionId id) { return is_known(entry_[id]); }))
        return std::nullopt;
      const Result<Literal> value = value_of(copy);
      if (!value) return std::nullopt;
      return add(it.name, Opcode::Constant, it.shape, {}, ConstantAttributes{value->with_shape(it.shape), false});
    });
  }

 private:
  static bool is_small(const Shape& shape) { return shape.is_array() && shape.element_count() <= kMostElements; }
  static bool is_known(const Instruction& it) {
    return it.opcode == Opcode::Constant && is_small(it.shape) && !it.as<ConstantAttributes>().elided;
  }

  /// What tuples pass on to the root.
  void mark_results(InstructionId id) {
    if (results_.empty()) results_.assign(from_.instructions.size(), false);
    results_[static_cast<size_t>(id)] = true;
    if (from_[id].opcode != Opcode::Tuple && from_[id].opcode != Opcode::GetTupleElement) return;
    for (const InstructionId operand : from_[id].operands) mark_results(operand);
  }

  /// Of an instruction of the new entry whose operands are constants.
  Result<Literal> value_of(const Instruction& it) const {
    Module alone;
    Computation& computation = alone.computations.emplace_back();
    alone.name = computation.name = "constant";
    alone.entry = 0;
    Instruction folded = it;
    for (InstructionId& operand : folded.operands) {
      computation.instructions.push_back(entry_[operand]);
      operand = static_cast<InstructionId>(computation.instructions.size()) - 1;
    }
    computation.instructions.push_back(std::move(folded));
    computation.root = static_cast<InstructionId>(computation.instructions.size()) - 1;
    return evaluate(alone, {});
  }

  std::vector<bool> results_;  ///< by instruction of `from_`
};

}  // namespace

Module fold_constants(const Module& module) { return ConstantFolder(module).run(); }

}  // namespace strata::hlo
