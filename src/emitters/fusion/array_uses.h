// Who reads which arrays of a computation, and what a group of its instructions reads and writes.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "emitters/fusion/group.h"
#include "emitters/fusion/pass.h"
#include "hlo/hlo.h"

namespace strata::emitters {

/// The array that a leaf of an instruction's value is: through get-tuple-element and tuple. Nothing for tokens, and
/// where there is no such leaf.
std::optional<ArrayValue> resolve(const hlo::Computation& computation, hlo::InstructionId id, int leaf = 0);

class ArrayUses {
 public:
  using Users = std::vector<std::pair<ArrayValue, hlo::InstructionId>>;

  /// What is `transparent` (names, constants and parameters) is in no group. Of `reshaped` instructions (free_reshapes
  /// in instruction_roles.h) others read the operand.
  ArrayUses(const hlo::Computation& computation, const std::vector<bool>& transparent,
            const std::vector<bool>& reshaped);

  /// Of an instruction, those that read its arrays, in order, each with the array.
  const Users& users(hlo::InstructionId id) const { return users_[static_cast<size_t>(id)]; }
  /// What an instruction reads.
  const std::vector<ArrayValue>& reads(hlo::InstructionId id) const { return reads_[static_cast<size_t>(id)]; }
  /// The arrays that the computation returns.
  const std::vector<ArrayValue>& results() const { return results_; }
  /// Whether an instruction needs another one, directly or not.
  bool is_computed_of(hlo::InstructionId id, hlo::InstructionId other) const;
  bool is_result(hlo::InstructionId id) const { return is_result_[static_cast<size_t>(id)]; }

  /// The arrays of a group that others read, and results, in order.
  std::vector<ArrayValue> outputs_of(const Group& group) const;
  /// The arrays of others, and of parameters, that a group reads, in order.
  std::vector<ArrayValue> inputs_of(const Group& group) const;

 private:
  void mark(const Group& group) const;
  bool is_marked(hlo::InstructionId id) const { return marks_[static_cast<size_t>(id)] == mark_; }

  const hlo::Computation& computation_;
  std::vector<std::vector<ArrayValue>> reads_;  ///< of each instruction that is in a group
  std::vector<Users> users_;
  std::vector<ArrayValue> results_;
  std::vector<bool> is_result_;
  mutable int mark_ = 0;
  mutable std::vector<int> marks_;  ///< of each instruction: the last mark of a group that has it
};

}  // namespace strata::emitters
