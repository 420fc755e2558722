#include "hlo/drop_identities.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "hlo/entry_rewriter.h"

namespace strata::hlo {
namespace {

class Dropping : EntryRewriter {
 public:
  explicit Dropping(const Module& module) : EntryRewriter(module) {}

  Module run() {
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      const auto id = static_cast<InstructionId>(&it - from_.instructions.data());
      if (id == from_.root) return std::nullopt;
      if (is_identity(it)) return copy.operands[0];
      if (it.opcode == Opcode::Reshape) return of_reshaped(it, copy.operands[0]);
      return it.opcode == Opcode::Transpose ? of_transposed(it, copy.operands[0]) : std::nullopt;
    });
  }

 private:
  /// A reduction, of whose reshapes the last gives its shape back. Of other arrays each reshape is a value that may be
  /// stored, where the array itself is computed again for each reader.
  std::optional<InstructionId> of_reshaped(const Instruction& it, InstructionId operand) const {
    while (entry_[operand].opcode == Opcode::Reshape) operand = entry_[operand].operands[0];
    const bool is_back = entry_[operand].opcode == Opcode::Reduce && entry_[operand].shape == it.shape;
    return is_back ? std::optional(operand) : std::nullopt;
  }

  /// A transpose of a transpose, as one of what that is of, or as that itself.
  std::optional<InstructionId> of_transposed(const Instruction& it, InstructionId operand) {
    const Instruction& before = entry_[operand];
    if (before.opcode != Opcode::Transpose) return std::nullopt;
    std::vector<int64_t> dimensions;
    for (const int64_t d : it.dimensions()) dimensions.push_back(before.dimensions()[static_cast<size_t>(d)]);
    const InstructionId source = before.operands[0];
    if (std::is_sorted(dimensions.begin(), dimensions.end()) && entry_[source].shape == it.shape) return source;
    return add(it.name, Opcode::Transpose, it.shape, {source}, DimensionsAttributes{dimensions});
  }

  bool is_identity(const Instruction& it) const {
    switch (it.opcode) {
      case Opcode::Broadcast:
      case Opcode::Transpose:
        for (size_t i = 0; i < it.dimensions().size(); ++i) {
          if (it.dimensions()[i] != static_cast<int64_t>(i)) return false;
        }
        break;
      case Opcode::Reshape:
      case Opcode::Convert:
      // No instructions are merged after this.
      case Opcode::OptimizationBarrier:
        break;
      default:
        return false;
    }
    return it.shape == from_.operand_shape(it, 0);
  }
};

}  // namespace

Module drop_identities(const Module& module) { return Dropping(module).run(); }

}  // namespace strata::hlo
