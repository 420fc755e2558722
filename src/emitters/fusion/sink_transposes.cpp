#include "emitters/fusion/sink_transposes.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "hlo/entry_rewriter.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;
using Dimensions = std::vector<int64_t>;

constexpr int64_t kLeastElements = 1 << 14;  ///< of arrays that are looked at

bool is_identity(const Dimensions& permutation) { return std::is_sorted(permutation.begin(), permutation.end()); }

class Sinking : hlo::EntryRewriter {
 public:
  explicit Sinking(const hlo::Module& module) : EntryRewriter(module) {}

  std::optional<hlo::Module> run() {
    find_permutations();
    bool changed = false;
    hlo::Module module = rewrite([&](const Instruction& it, const Instruction& copy) -> std::optional<InstructionId> {
      const std::optional<InstructionId> result = replaced(it, copy);
      changed = changed || result;
      return result;
    });
    return changed ? std::optional(std::move(module)) : std::nullopt;
  }

 private:
  InstructionId id_of(const Instruction& it) const {
    return static_cast<InstructionId>(&it - from_.instructions.data());
  }
  const Dimensions& permutation(InstructionId id) const { return permutations_[static_cast<size_t>(id)]; }

  /// Of values that are transposes of others by a permutation: that; empty for all else. `neutral_` are values that
  /// are as easily computed in any order.
  void find_permutations() {
    permutations_.resize(from_.instructions.size());
    neutral_.assign(from_.instructions.size(), false);
    back_.assign(from_.instructions.size(), false);
    for (InstructionId id = 0; id < std::ssize(from_.instructions); ++id) {
      const Instruction& it = from_[id];
      if (!it.shape.is_array() || !it.shape.has_default_layout()) continue;
      if (it.shape.element_count() < kLeastElements) continue;
      Dimensions permutation = permutation_of(it);
      back_[static_cast<size_t>(id)] = it.opcode == Opcode::Transpose && is_identity(permutation) &&
                                       !this->permutation(it.operands[0]).empty() && !permutation.empty();
      if (!is_identity(permutation)) permutations_[static_cast<size_t>(id)] = std::move(permutation);
      neutral_[static_cast<size_t>(id)] = is_neutral(it);
    }
  }

  Dimensions permutation_of(const Instruction& it) const {
    if (it.opcode == Opcode::Transpose) {
      const Dimensions& inner = permutation(it.operands[0]);
      Dimensions all = it.dimensions();
      if (!from_.operand_shape(it, 0).has_default_layout()) return {};
      for (int64_t& d : all) d = inner.empty() ? d : inner[static_cast<size_t>(d)];
      return all;
    }
    Dimensions common;
    if (!hlo::is_elementwise(it.opcode)) return {};
    for (const InstructionId operand : it.operands) {
      if (from_[operand].shape.dims != it.shape.dims) return {};
      if (neutral_[static_cast<size_t>(operand)]) continue;
      const Dimensions& one = permutation(operand);
      if (one.empty() || (!common.empty() && one != common)) return {};
      common = one;
    }
    return common;
  }

  bool is_neutral(const Instruction& it) const {
    if (it.opcode == Opcode::Iota) return true;
    // Several dimensions could come out in another order.
    if (it.opcode == Opcode::Broadcast) return it.dimensions().size() <= 1;
    return hlo::is_elementwise(it.opcode) && std::all_of(it.operands.begin(), it.operands.end(), [&](InstructionId o) {
             return neutral_[static_cast<size_t>(o)] && from_[o].shape.dims == it.shape.dims;
           });
  }

  std::optional<InstructionId> replaced(const Instruction& it, const Instruction& copy) {
    if (back_[static_cast<size_t>(id_of(it))]) return as_it_lies(it.operands[0], permutation(it.operands[0]));
    if (it.opcode != Opcode::Reduce || it.operands.size() != 2 || !it.shape.is_array()) return std::nullopt;
    const Dimensions& by = permutation(it.operands[0]);
    if (by.empty() || !it.shape.has_default_layout()) return std::nullopt;
    Dimensions over, kept;
    for (int64_t d = 0; d < std::ssize(by); ++d) {
      const bool reduced = std::find(it.dimensions().begin(), it.dimensions().end(), d) != it.dimensions().end();
      (reduced ? over : kept).push_back(by[static_cast<size_t>(d)]);
    }
    // Where results have another order: that of what is kept, as it lies.
    Dimensions order(kept.size()), sizes;
    for (size_t i = 0; i < kept.size(); ++i) {
      order[i] = std::count_if(kept.begin(), kept.end(), [&](int64_t other) { return other < kept[i]; });
    }
    Dimensions sorted = kept;
    std::sort(sorted.begin(), sorted.end());
    std::sort(over.begin(), over.end());
    const InstructionId operand = as_it_lies(it.operands[0], by);
    for (const int64_t d : sorted) sizes.push_back(shape(operand).dim(d));
    const InstructionId result = add(it.name, Opcode::Reduce, hlo::array_shape(it.shape.type, sizes),
                                     {operand, copy.operands[1]}, hlo::DimensionsAttributes{{over}}, it.called);
    if (is_identity(order)) return result;
    return add(it.name, Opcode::Transpose, it.shape, {result}, hlo::DimensionsAttributes{{order}});
  }

  /// The value of which one is the transpose by a permutation.
  InstructionId as_it_lies(InstructionId id, const Dimensions& by) {
    if (const auto known = made_.find({id, by}); known != made_.end()) return known->second;
    const Instruction& it = from_[id];
    Dimensions dims(by.size());
    for (size_t d = 0; d < by.size(); ++d) dims[static_cast<size_t>(by[d])] = it.shape.dims[d];
    const auto at = [&](Dimensions some) {
      for (int64_t& d : some) d = by[static_cast<size_t>(d)];
      return some;
    };
    InstructionId result;
    if (it.opcode == Opcode::Transpose) {
      const Dimensions& inner = permutation(it.operands[0]);
      result = inner.empty() ? moved_[static_cast<size_t>(it.operands[0])] : as_it_lies(it.operands[0], inner);
    } else if (it.opcode == Opcode::Broadcast || it.opcode == Opcode::Iota) {
      std::vector<InstructionId> operands;
      for (const InstructionId operand : it.operands) operands.push_back(moved_[static_cast<size_t>(operand)]);
      result = add(it.name, it.opcode, hlo::array_shape(it.shape.type, dims), operands,
                   hlo::DimensionsAttributes{{at(it.dimensions())}});
    } else {
      std::vector<InstructionId> operands;
      for (const InstructionId operand : it.operands) operands.push_back(as_it_lies(operand, by));
      result = add(it.name, it.opcode, hlo::array_shape(it.shape.type, dims), operands, it.attributes, it.called);
    }
    return made_[{id, by}] = result;
  }

  std::vector<Dimensions> permutations_;
  std::vector<bool> neutral_;
  std::vector<bool> back_;  ///< transposes of transposes of something, by which that is as it was
  std::map<std::pair<InstructionId, Dimensions>, InstructionId> made_;
};

}  // namespace

std::optional<hlo::Module> sink_transposes(const hlo::Module& module) { return Sinking(module).run(); }

}  // namespace strata::emitters
