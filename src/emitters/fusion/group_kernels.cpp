#include "emitters/fusion/group_kernels.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "emitters/fusion/array_uses.h"
#include "emitters/fusion/instruction_roles.h"
#include "emitters/fusion/kept_rows.h"
#include "emitters/fusion/part_builder.h"
#include "hlo/indexing/serial_terms.h"
#include "hlo/scan_window.h"
#include "hlo/source_of.h"

namespace strata::emitters {

using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

GroupKernels::GroupKernels(const hlo::Module& module, const std::vector<bool>& used,
                           const std::vector<bool>& everywhere, Ratings& ratings)
    : module_(module),
      computation_(module.entry_computation()),
      target_(ratings.target()),
      used_(used),
      everywhere_(everywhere) {
  const size_t count = computation_.instructions.size();
  for (size_t i = 0; i < count; ++i) {
    const Instruction& it = computation_.instructions[i];
    const hlo::Instruction parameter{"", Opcode::Parameter, it.shape, {}, {}, {}, {}};
    kinds_.push_back(used_[i] ? static_cast<int32_t>(ratings.kind_of(module_, it)) : -1);
    shapes_.push_back(used_[i] ? static_cast<int32_t>(ratings.kind_of(module_, parameter)) : -1);
  }
  long_reductions_ = long_reductions(computation_);
  find_plain();
  find_alike();
  forget_places_of_slices(ratings);
  priced_.resize(count);
  group_of_mark_.assign(count, 0);
  places_.assign(count, -1);
  first_.assign(count, -1);
}

void GroupKernels::find_plain() {
  std::map<ArrayValue, InstructionId> elements;
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const auto id = static_cast<InstructionId>(i);
    const Instruction& it = computation_[id];
    const bool together =
        it.opcode == Opcode::Reduce || it.opcode == Opcode::Dot || hlo::scan_window(computation_, it).has_value();
    const bool few_terms = it.opcode == Opcode::Reduce && !indexing::is_long_reduction(computation_, it);
    bool plain = it.shape.is_array() && (!together || few_terms) && !is_interpreted(it) && it.opcode != Opcode::Call &&
                 it.opcode != Opcode::GetDimensionSize;
    element_.push_back(id);
    if (it.opcode == Opcode::GetTupleElement) {
      const std::optional<ArrayValue> value = resolve(computation_, id);
      plain = plain && value;
      if (value) element_.back() = elements.try_emplace(*value, id).first->second;
    } else {
      for (const InstructionId operand : it.operands) plain = plain && computation_[operand].shape.is_array();
    }
    plain_.push_back(plain);
  }
}

void GroupKernels::find_alike() {
  std::map<std::vector<int32_t>, std::vector<InstructionId>> classes;  // by what an instruction is, and its operands'
  std::vector<int32_t> value;
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const auto id = static_cast<InstructionId>(i);
    const Instruction& it = computation_[id];
    std::vector<int32_t> key{-1 - id};
    if (used_[i] && has_plain_attributes(it)) {
      key[0] = kinds_[i];
      for (const InstructionId operand : it.operands) key.push_back(value[static_cast<size_t>(operand)]);
    }
    std::vector<InstructionId>& members = classes[key];
    members.push_back(id);
    value.push_back(members.front());
  }
  alike_.assign(kinds_.size(), -1);
  for (const auto& [key, members] : classes) {
    for (const InstructionId id : members) {
      if (members.size() > 1) alike_[static_cast<size_t>(id)] = members.front();
    }
  }
}

/// The steps of an unrolled loop are alike then, and groups of them: those of each number of steps are rated once, not
/// once for each choice of steps.
void GroupKernels::forget_places_of_slices(Ratings& ratings) {
  std::map<InstructionId, std::vector<InstructionId>> slices;  // by what they are of
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const Instruction& it = computation_.instructions[i];
    if (used_[i] && it.opcode == Opcode::Slice) slices[it.operands[0]].push_back(static_cast<InstructionId>(i));
  }
  const auto attributes_of = [&](InstructionId id) -> const hlo::SliceAttributes& {
    return std::get<hlo::SliceAttributes>(computation_[id].attributes);
  };
  const auto overlap = [&](InstructionId one, InstructionId other) {
    const hlo::SliceAttributes &a = attributes_of(one), &b = attributes_of(other);
    for (size_t d = 0; d < a.starts.size(); ++d)
      if (a.limits[d] <= b.starts[d] || b.limits[d] <= a.starts[d]) return false;
    return true;
  };
  for (const auto& [operand, of_operand] : slices) {
    bool apart = true;
    for (size_t i = 0; i < of_operand.size() && apart; ++i)
      for (size_t j = 0; j < i && apart; ++j) apart = !overlap(of_operand[i], of_operand[j]);
    if (!apart) continue;
    for (const InstructionId id : of_operand) {
      Instruction moved = computation_[id];
      auto& attributes = std::get<hlo::SliceAttributes>(moved.attributes);
      for (size_t d = 0; d < attributes.starts.size(); ++d) {
        attributes.limits[d] -= attributes.starts[d];
        attributes.starts[d] = 0;
      }
      kinds_[static_cast<size_t>(id)] = static_cast<int32_t>(ratings.kind_of(module_, moved));
    }
  }
}

void GroupKernels::mark(const Group& group) {
  ++mark_;
  for (const InstructionId id : group) group_of_mark_[static_cast<size_t>(id)] = mark_;
}

void GroupKernels::forget() {
  for (const InstructionId id : seen_) {
    places_[static_cast<size_t>(id)] = -1;
    if (const int32_t alike = alike_[static_cast<size_t>(id)]; alike >= 0) first_[static_cast<size_t>(alike)] = -1;
  }
  seen_.clear();
}

const std::vector<int32_t>& GroupKernels::describe(const Group& group, const std::vector<ArrayValue>& outputs,
                                                   bool in_place) {
  mark(group);
  numbers_.clear();
  numbers_.push_back(in_place ? 1 : 0);
  numbers_.push_back(static_cast<int32_t>(outputs.size()));
  for (const ArrayValue& output : outputs) described(output.instruction);
  for (const ArrayValue& output : outputs) {
    numbers_.push_back(places_[static_cast<size_t>(output.instruction)]);
    numbers_.push_back(output.element);
  }
  forget();
  return numbers_;
}

/// The number of an instruction in the description; operands come before their users.
int32_t GroupKernels::described(InstructionId id) {
  const auto i = static_cast<size_t>(id);
  if (places_[i] >= 0) return places_[i];
  const Instruction& it = computation_[id];
  if (inside(id)) {
    for (const InstructionId operand : it.operands) described(operand);
    numbers_.push_back(kinds_[i]);
    numbers_.push_back(static_cast<int32_t>(it.operands.size()));
    for (const InstructionId operand : it.operands) numbers_.push_back(places_[static_cast<size_t>(operand)]);
  } else {
    numbers_.push_back(-1 - shapes_[i]);
    numbers_.push_back(0);
  }
  places_[i] = static_cast<int32_t>(seen_.size());
  seen_.push_back(id);
  return places_[i];
}

bool GroupKernels::writes_apart(const Group& group, const std::vector<ArrayValue>& outputs) {
  int number = kNoReduction;
  InstructionId reduction = -1;
  for (const InstructionId id : group) {
    const int other = long_reductions_[static_cast<size_t>(id)];
    if (other == kNoReduction || other == number) continue;
    if (other == kOtherReduction || reduction >= 0) return false;
    number = other;
    reduction = id;
  }
  if (reduction < 0) return false;
  mark(group);
  const int64_t terms = computation_.operand_shape(computation_[reduction], 0).element_count();
  const int64_t results = hlo::leaf_of(computation_[reduction].shape, 0).element_count();
  // One function computes all outputs of as many elements, so that what one of them needs is at hand for all.
  std::set<int64_t> with_reduction, without;
  for (const ArrayValue& output : outputs) {
    const Instruction& it = computation_[output.instruction];
    const int64_t elements = hlo::leaf_of(it.shape, output.element).element_count();
    const bool fits = elements == terms || elements == results || !it.shape.is_array() || !is_operator(it);
    const bool needs = needs_reduction(output.instruction);
    if (needs || !fits) (needs ? with_reduction : without).insert(elements);
  }
  forget();
  return std::any_of(without.begin(), without.end(),
                     [&](int64_t elements) { return !with_reduction.contains(elements); });
}

/// Whether an instruction of the part is a reduction, or computed of one.
bool GroupKernels::needs_reduction(InstructionId id) {
  if (!inside(id)) return false;
  const auto i = static_cast<size_t>(id);
  if (places_[i] >= 0) return places_[i] == 1;
  const Instruction& it = computation_[id];
  bool needs = it.opcode == Opcode::Reduce;
  for (size_t k = 0; k < it.operands.size() && !needs; ++k) needs = needs_reduction(it.operands[k]);
  places_[i] = needs ? 1 : 0;
  seen_.push_back(id);
  return needs;
}

const PricedKernel* GroupKernels::kernel_of(const Group& group, const std::vector<ArrayValue>& outputs) {
  if (!std::all_of(group.begin(), group.end(), [&](InstructionId id) { return plain_[static_cast<size_t>(id)]; }))
    return nullptr;
  if (!may_reduce_together(group)) return nullptr;
  mark(group);
  together_ = {};
  reduces_by_rows_ = reduces(group) && keeps_rows(computation_, group);
  if (!reduces_by_rows_) together_.is_serial = sums_long_chains(group);
  kernel_.clear();
  next_.clear();
  bool known = true;
  for (const ArrayValue& output : outputs) {
    const InstructionId root = placed(output.instruction);
    known = known && root >= 0;
    kernel_.graph.roots.push_back(root);
  }
  forget();
  if (!known) return nullptr;
  if (!together_.instructions.empty()) {
    constexpr double kThreadsOfBlock = 256;
    together_.passes.assign(together_.instructions.size(), 0);
    together_.threads = kernel_.instructions[static_cast<size_t>(together_.instructions[0])]->counted.elements;
    together_.blocks = std::ceil(together_.threads / kThreadsOfBlock);
  }
  return &kernel_;
}

bool GroupKernels::reduces(const Group& group) const {
  return std::ranges::any_of(group, [&](InstructionId id) { return computation_[id].opcode == Opcode::Reduce; });
}

bool GroupKernels::sums_long_chains(const Group& group) const {
  if (!reduces(group)) return false;
  const std::vector<InstructionId> instructions(group.begin(), group.end());
  return indexing::longest_serial_terms(computation_, instructions).combined > indexing::kFewTerms;
}

bool GroupKernels::may_reduce_together(const Group& group) const {
  constexpr size_t kSmall = 64;  // instructions: of fewer a plan is soon made
  const Instruction* first = nullptr;
  for (const InstructionId id : group) {
    const Instruction& it = computation_[id];
    if (it.opcode != Opcode::Reduce) continue;
    if (group.size() <= kSmall) return false;
    if (first == nullptr) first = &it;
    if (it.dimensions() != first->dimensions() ||
        computation_.operand_shape(it, 0).dims != computation_.operand_shape(*first, 0).dims)
      return false;
  }
  return true;
}

InstructionId GroupKernels::placed(InstructionId id) {
  const auto i = static_cast<size_t>(id);
  if (places_[i] >= 0) return places_[i];
  InstructionId place = -1;
  if (computation_[id].opcode == Opcode::GetTupleElement) {
    if (!plain_[i]) return -1;
    const InstructionId source = resolve(computation_, id)->instruction;
    if (computation_[source].shape.is_array()) return placed(source);
    if (inside(source)) return -1;
    if (element_[i] != id) return placed(element_[i]);
    place = add(priced_parameter(id), {});
  } else if (!inside(id)) {
    place = add(priced_parameter(id), {});
  } else if (plain_[i]) {
    place = place_inside(id);
  }
  if (place < 0) return -1;
  places_[i] = place;
  seen_.push_back(id);
  return place;
}

InstructionId GroupKernels::place_inside(InstructionId id) {
  std::vector<InstructionId> operands;
  for (const InstructionId operand : computation_[id].operands) {
    operands.push_back(placed(operand));
    if (operands.back() < 0) return -1;
  }
  const int32_t alike = alike_[static_cast<size_t>(id)];
  if (computation_[id].opcode == Opcode::Reduce && reduces_by_rows_) {
    together_.instructions.push_back(add(priced(id), operands));
    return together_.instructions.back();
  }
  if (alike < 0) return add(priced(id), operands);
  InstructionId& first = first_[static_cast<size_t>(alike)];
  for (InstructionId other = first; other >= 0; other = next_[static_cast<size_t>(other)]) {
    const auto others = kernel_.graph.operands_of(other);
    if (std::equal(others.begin(), others.end(), operands.begin(), operands.end())) return other;
  }
  const InstructionId place = add(priced(id), operands);
  next_[static_cast<size_t>(place)] = first;
  return first = place;
}

InstructionId GroupKernels::add(const PricedInstruction& priced, std::span<const InstructionId> operands) {
  kernel_.add(priced, operands);
  next_.push_back(-1);
  return static_cast<InstructionId>(kernel_.instructions.size()) - 1;
}

const PricedInstruction& GroupKernels::priced(InstructionId id) {
  std::optional<PricedInstruction>& known = priced_[static_cast<size_t>(id)];
  if (!known) known = priced_instruction(module_, module_.entry, id, target_);
  return *known;
}

const PricedInstruction& GroupKernels::priced_parameter(InstructionId id) {
  const auto [known, is_new] = parameters_.try_emplace(shapes_[static_cast<size_t>(id)]);
  if (is_new) {
    hlo::Module module;
    module.computations.push_back(
        {"", {{"", Opcode::Parameter, computation_[id].shape, {}, {}, hlo::ParameterAttributes{}, {}}}, {0}, 0});
    known->second = priced_instruction(module, 0, 0, target_);
  }
  return known->second;
}

}  // namespace strata::emitters
