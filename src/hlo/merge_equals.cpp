#include "hlo/merge_equals.h"

#include <optional>
#include <string>
#include <unordered_map>

#include "hlo/entry_rewriter.h"
#include "hlo/opcode.h"
#include "hlo/structure_key.h"

namespace strata::hlo {
namespace {

/// Constants of more bytes are not compared.
constexpr int64_t kMostBytes = 4096;

class Merging : EntryRewriter {
 public:
  explicit Merging(const Module& module) : EntryRewriter(module), module_(module) {}

  Module run() {
    return rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      const auto id = static_cast<InstructionId>(&it - from_.instructions.data());
      if (id == from_.root || !may_merge(it)) return std::nullopt;
      std::string key = structure_key(module_, it);
      for (const InstructionId operand : copy.operands)
        key.append(reinterpret_cast<const char*>(&operand), sizeof operand);
      const auto [first, is_first] =
          first_.try_emplace(std::move(key), static_cast<InstructionId>(entry_.instructions.size()));
      return is_first ? std::nullopt : std::optional(first->second);
    });
  }

 private:
  bool may_merge(const Instruction& it) const {
    // Costs nothing where it is read, and as one value of two kernels it would be an array in memory.
    if (it.opcode == Opcode::Broadcast && it.shape.element_count() > from_.operand_shape(it, 0).element_count())
      return false;
    switch (family(it.opcode)) {
      case Family::Unsupported:
        return false;
      case Family::Control:
        return it.opcode == Opcode::GetTupleElement;
      case Family::Leaf:
        return it.opcode == Opcode::Iota || (it.opcode == Opcode::Constant && it.shape.is_array() &&
                                             it.shape.element_count() * byte_width(it.shape.type) <= kMostBytes);
      default:
        return true;
    }
  }

  const Module& module_;
  std::unordered_map<std::string, InstructionId> first_;  ///< of the new entry
};

}  // namespace

Module merge_equals(const Module& module) { return Merging(module).run(); }

}  // namespace strata::hlo
