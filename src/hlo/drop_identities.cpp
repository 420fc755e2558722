#include "hlo/drop_identities.h"

#include <optional>

#include "hlo/entry_rewriter.h"

namespace strata::hlo {
namespace {

class Dropping : EntryRewriter {
 public:
  explicit Dropping(const Module& module) : EntryRewriter(module) {}

  Module run() {
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      const auto id = static_cast<InstructionId>(&it - from_.instructions.data());
      return id != from_.root && is_identity(it) ? std::optional(copy.operands[0]) : std::nullopt;
    });
  }

 private:
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
