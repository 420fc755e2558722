// A module's entry written again with other instructions in place of some.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hlo/hlo.h"

namespace strata::hlo {

/// Padding after the last element of each dimension, so that sizes `from` become `to`. A size that is larger is cut.
PadAttributes padding_to(const std::vector<int64_t>& from, const std::vector<int64_t>& to);

/// What passes that replace instructions derive from. Those that stay are copied in order, and read what became of
/// their operands.
class EntryRewriter {
 protected:
  explicit EntryRewriter(const Module& module) : result_(module), from_(module.entry_computation()) {}

  /// What stands for an instruction, or nothing where it stays; `copy` is the instruction with operands of the new
  /// entry.
  using Replaced = std::function<std::optional<InstructionId>(const Instruction& it, const Instruction& copy)>;
  /// The module with the new entry, or as it was where nothing is replaced. A replacement's last instruction gets the
  /// name of what it stands for.
  Module rewrite(const Replaced& replaced);

  InstructionId append(Instruction it);
  /// With a name that no other instruction has.
  InstructionId add(const std::string& base, Opcode opcode, Shape shape, std::vector<InstructionId> operands,
                    Attributes attributes = NoAttributes{}, std::vector<ComputationId> called = {});
  /// A scalar constant.
  InstructionId scalar(const std::string& base, ElementType type, double value);
  /// A scalar constant 0.
  InstructionId zero(ElementType type);
  /// The array with zeros after the last element of each dimension up to these sizes, or cut to them, in the default
  /// layout. An array of these sizes stays as it is.
  InstructionId resized(InstructionId array, const std::vector<int64_t>& to);
  /// The array up to `size` along the dimension, and this number beyond.
  InstructionId masked(InstructionId array, int64_t dimension, int64_t size, double number);
  /// The array this often along the dimension, one after the other, in the default layout.
  InstructionId repeated(const std::string& base, InstructionId array, size_t dimension, int64_t times);
  const Shape& shape(InstructionId id) const { return entry_[id].shape; }

  Module result_;  ///< computations that are called may be added
  const Computation from_;
  Computation entry_;                 ///< the new one
  std::vector<InstructionId> moved_;  ///< by instruction of `from_`, as far as they are done

 private:
  std::set<std::string> names_;
};

}  // namespace strata::hlo
