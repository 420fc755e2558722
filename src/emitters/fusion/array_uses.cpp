#include "emitters/fusion/array_uses.h"

#include "hlo/source_of.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::InstructionId;

/// The arrays of a value of any shape: through tuples.
void collect_arrays(const Computation& computation, InstructionId id, std::vector<ArrayValue>& arrays) {
  const int64_t leaves = hlo::leaf_count(computation[id].shape);
  for (int64_t leaf = 0; leaf < leaves; ++leaf) {
    if (const auto value = resolve(computation, id, static_cast<int>(leaf))) arrays.push_back(*value);
  }
}

}  // namespace

std::optional<ArrayValue> resolve(const Computation& computation, InstructionId id, int leaf) {
  if (leaf >= hlo::leaf_count(computation[id].shape)) return std::nullopt;
  const auto [source, number] = hlo::source_of(computation, id, leaf);
  if (!hlo::leaf_of(computation[source].shape, number).is_array()) return std::nullopt;
  return ArrayValue{source, static_cast<int>(number)};
}

ArrayUses::ArrayUses(const Computation& computation, const std::vector<bool>& transparent,
                     const std::vector<bool>& reshaped)
    : computation_(computation),
      reads_(computation.instructions.size()),
      users_(computation.instructions.size()),
      is_result_(computation.instructions.size(), false),
      marks_(computation.instructions.size(), 0) {
  for (size_t i = 0; i < computation.instructions.size(); ++i) {
    const auto user = static_cast<InstructionId>(i);
    if (transparent[i]) continue;
    // Through what is in every group.
    for (InstructionId operand : computation[user].operands) {
      while (reshaped[static_cast<size_t>(operand)]) operand = computation[operand].operands[0];
      collect_arrays(computation, operand, reads_[i]);
    }
    for (const ArrayValue& value : reads_[i]) users_[static_cast<size_t>(value.instruction)].push_back({value, user});
  }
  collect_arrays(computation, computation.root, results_);
  for (const ArrayValue& result : results_) is_result_[static_cast<size_t>(result.instruction)] = true;
}

bool ArrayUses::is_computed_of(InstructionId id, InstructionId other) const {
  std::vector<bool> seen(static_cast<size_t>(id) + 1, false);
  std::vector<InstructionId> next{id};
  while (!next.empty()) {
    const InstructionId at = next.back();
    next.pop_back();
    for (const InstructionId operand : computation_[at].operands) {
      if (operand == other) return true;
      if (operand < other || seen[static_cast<size_t>(operand)]) continue;
      seen[static_cast<size_t>(operand)] = true;
      next.push_back(operand);
    }
  }
  return false;
}

std::vector<ArrayValue> ArrayUses::outputs_of(const Group& group) const {
  mark(group);
  std::vector<ArrayValue> outputs;
  for (const InstructionId id : group) {
    const bool one_value = !computation_[id].shape.is_tuple();
    bool is_output = false;
    for (const auto& [value, user] : users(id)) {
      if (is_marked(user)) continue;
      is_output = true;
      outputs.push_back(value);
      if (one_value) break;
    }
    if (is_result(id)) {
      if (one_value && !is_output) outputs.push_back({id, 0});
      for (const ArrayValue& result : one_value ? std::vector<ArrayValue>() : results_) {
        if (result.instruction == id) outputs.push_back(result);
      }
    }
    // What nothing uses still runs where it is the only thing to run.
    if (outputs.empty() && users(id).empty()) outputs.push_back({id, 0});
  }
  return distinct(std::move(outputs));
}

std::vector<ArrayValue> ArrayUses::inputs_of(const Group& group) const {
  mark(group);
  std::vector<ArrayValue> inputs;
  for (const InstructionId id : group) {
    for (const ArrayValue& value : reads(id)) {
      if (!is_marked(value.instruction)) inputs.push_back(value);
    }
  }
  return distinct(std::move(inputs));
}

void ArrayUses::mark(const Group& group) const {
  ++mark_;
  for (const InstructionId id : group) marks_[static_cast<size_t>(id)] = mark_;
}

}  // namespace strata::emitters
