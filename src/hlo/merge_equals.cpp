#include "hlo/merge_equals.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

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
      const auto next = static_cast<InstructionId>(entry_.instructions.size());
      InstructionId first = next;
      if (may_merge(it)) {
        std::vector<InstructionId> operands = copy.operands;
        for (InstructionId& operand : operands) operand = values_[static_cast<size_t>(operand)];
        first = first_.try_emplace(structure_key(module_, it, operands), next).first->second;
        const auto id = static_cast<InstructionId>(&it - from_.instructions.data());
        if (first != next && id != from_.root && !is_view(it.opcode)) return first;
      }
      values_.push_back(first);
      return std::nullopt;
    });
  }

 private:
  /// What costs nothing where it is read: one for two kernels would be an array in memory.
  static bool is_view(Opcode opcode) {
    return opcode == Opcode::Broadcast || opcode == Opcode::Reshape || opcode == Opcode::Bitcast;
  }

  static bool may_merge(const Instruction& it) {
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
  std::unordered_map<std::string, InstructionId> first_;  ///< of the new entry, by what is computed
  std::vector<InstructionId> values_;                     ///< of instructions of the new entry: the first that is equal
};

}  // namespace

Module merge_equals(const Module& module) { return Merging(module).run(); }

}  // namespace strata::hlo
