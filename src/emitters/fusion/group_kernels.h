// Groups of a module's instructions as kernels to be priced, without a module for each of them.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "emitters/fusion/group.h"
#include "emitters/fusion/pass.h"
#include "emitters/fusion/priced_kernel.h"
#include "emitters/fusion/ratings.h"
#include "hlo/hlo.h"

namespace strata::emitters {

/// What the parts of groups (build_part) are, as far as times depend on it.
class GroupKernels {
 public:
  /// `used`: by the root. `everywhere`: what is copied into each part.
  GroupKernels(const hlo::Module& module, const std::vector<bool>& used, const std::vector<bool>& everywhere,
               Ratings& ratings);

  /// Numbers that say all that a group's part depends on: its outputs, and of each instruction that they need, up to
  /// those of other groups, what it is and which are its operands. Valid until the next call.
  const std::vector<int32_t>& describe(const Group& group, const std::vector<ArrayValue>& outputs, bool in_place);

  /// Whether a group's kernel takes infinitely long (kernel_time) because a long reduction's emitter cannot write an
  /// output beside it: one that needs no reduction, and has neither an element for each that is reduced nor one for
  /// each of the reduction's results (plan_reduction_outputs). Then each of these is summed by one thread.
  bool writes_apart(const Group& group, const std::vector<ArrayValue>& outputs);

  /// The kernel of a group. Nothing where its time needs the part itself: where threads compute something together
  /// (ComputedOnce), where values are tuples, and where the interpreter runs it. Valid until the next call. Short
  /// reductions of one shape are taken to be computed in one pass over rows where a group is large and reads them in
  /// their rows alone: a plan of hundreds of instructions for each step of its growth would take long, and differs
  /// little. Where it reads them in other rows, each is computed again wherever it is read, as the loop emitter does.
  const PricedKernel* kernel_of(const Group& group, const std::vector<ArrayValue>& outputs);
  /// What threads of the last kernel compute together.
  const ComputedOnce& together() const { return together_; }

 private:
  int32_t described(hlo::InstructionId id);
  /// The place of an instruction in the kernel; -1 where there is no kernel.
  hlo::InstructionId placed(hlo::InstructionId id);
  hlo::InstructionId place_inside(hlo::InstructionId id);
  hlo::InstructionId add(const PricedInstruction& priced, std::span<const hlo::InstructionId> operands);
  const PricedInstruction& priced(hlo::InstructionId id);
  const PricedInstruction& priced_parameter(hlo::InstructionId id);
  bool may_reduce_together(const Group& group) const;
  bool reduces(const Group& group) const;
  bool sums_long_chains(const Group& group) const;
  bool needs_reduction(hlo::InstructionId id);
  void mark(const Group& group);
  void forget();
  bool inside(hlo::InstructionId id) const {
    const auto i = static_cast<size_t>(id);
    return everywhere_[i] || group_of_mark_[i] == mark_;
  }
  void find_plain();
  void find_alike();
  void forget_places_of_slices(Ratings& ratings);

  const hlo::Module& module_;
  const hlo::Computation& computation_;
  const Target& target_;
  const std::vector<bool>& used_;
  const std::vector<bool>& everywhere_;
  /// Of instructions: Ratings::kind_of it, and of a parameter of its shape; kinds are without the places of slices of
  /// an array of which no two overlap, since times hardly depend on them.
  std::vector<int32_t> kinds_, shapes_;
  std::vector<int> long_reductions_;  ///< long_reductions()
  std::vector<bool> plain_;           ///< whether an instruction is priced without a part
  /// Of instructions that a part has once where their operands are the same: a number that they have in common with
  /// those that may be the same; -1 of all others.
  std::vector<int32_t> alike_;
  std::vector<hlo::InstructionId> element_;  ///< of get-tuple-elements: the first that takes the same array
  std::vector<std::optional<PricedInstruction>> priced_;
  std::unordered_map<int32_t, PricedInstruction> parameters_;  ///< by shapes_

  int mark_ = 0;
  std::vector<int> group_of_mark_;         ///< of instructions: the mark of the last group that had it
  std::vector<int32_t> places_;            ///< of instructions in what is being written, else -1
  std::vector<hlo::InstructionId> seen_;   ///< that have places
  std::vector<hlo::InstructionId> first_;  ///< place of the first of those that are alike, else -1
  std::vector<hlo::InstructionId> next_;   ///< by place: of the next one of them
  std::vector<int32_t> numbers_;
  bool reduces_by_rows_ = false;  ///< of the last kernel: threads that have a row in hand compute its reductions
  ComputedOnce together_{};
  PricedKernel kernel_;
};

}  // namespace strata::emitters
