#include "hlo/loop_rows.h"

#include <algorithm>
#include <utility>

#include "hlo/zero_constant.h"

namespace strata::hlo {
namespace {

/// Of two parameters.
bool adds(const Computation& computation) {
  const Instruction& root = computation.root_instruction();
  if (root.opcode != Opcode::Add || computation.parameters.size() != 2) return false;
  return (root.operands == computation.parameters) ||
         (root.operands[0] == computation.parameters[1] && root.operands[1] == computation.parameters[0]);
}

/// Whether `dims` are a row of these dimensions: without the first one.
bool are_of_row(const std::vector<int64_t>& dims, const std::vector<int64_t>& of) {
  return of.size() >= 2 && dims.size() + 1 == of.size() && std::equal(dims.begin(), dims.end(), of.begin() + 1);
}

}  // namespace

LoopRows::LoopRows(const Module& module, const Computation& body, CountedLoop counted)
    : module_(&module), body_(&body), counted_(std::move(counted)), uses_(body.instructions.size(), 0) {
  for (const Instruction& it : body.instructions) {
    for (const InstructionId operand : it.operands) ++uses_[static_cast<size_t>(operand)];
  }
}

std::optional<LoopRows> LoopRows::of(const Module& module, const Computation& computation, InstructionId loop) {
  const Instruction& it = computation[loop];
  const Computation& body = module[it.called[1]];
  const auto is_array = [](const Shape& shape) { return shape.is_array() && shape.has_default_layout(); };
  if (!it.shape.is_tuple() || !std::all_of(it.shape.elements.begin(), it.shape.elements.end(), is_array) ||
      body.root_instruction().opcode != Opcode::Tuple)
    return std::nullopt;
  for (const ComputationId called : it.called) {
    const Computation& one = module[called];
    for (const Instruction& user : one.instructions) {
      if (user.opcode != Opcode::GetTupleElement && std::ranges::count(user.operands, one.parameters[0]) > 0)
        return std::nullopt;
    }
  }
  std::optional<CountedLoop> counted = counted_loop(module, computation, loop);
  if (!counted || counted->count == 0) return std::nullopt;
  return LoopRows(module, body, *std::move(counted));
}

std::optional<int64_t> LoopRows::leaf_of(InstructionId id) const {
  const Instruction& it = (*body_)[id];
  if (it.opcode != Opcode::GetTupleElement || it.operands[0] != body_->parameters[0]) return std::nullopt;
  return it.as<TupleIndexAttributes>().index;
}

bool LoopRows::is_invariant(int64_t leaf) const {
  return leaf_of(body_->root_instruction().operands[static_cast<size_t>(leaf)]) == leaf;
}

/// By one instruction of the body, besides the root where it stays as it is.
bool LoopRows::is_read_once(int64_t leaf) const {
  int64_t reads = 0;
  for (InstructionId id = 0; id < std::ssize(body_->instructions); ++id) {
    if (leaf_of(id) == leaf) reads += uses(id);
  }
  return reads == 1;
}

std::optional<LoopRows::Affine> LoopRows::affine(InstructionId id) const {
  const Instruction& it = (*body_)[id];
  if (!it.shape.is_array() || it.shape.element_count() != 1 || !is_integer(it.shape.type)) return std::nullopt;
  const std::optional<Affine> found = affine_number(id);
  // What wraps around in some iteration is none.
  const bool is_one = found && hlo::fits(found->first, it.shape.type) &&
                      hlo::fits(found->first + (count() - 1) * found->slope, it.shape.type);
  return is_one ? found : std::nullopt;
}

std::optional<LoopRows::Affine> LoopRows::affine_number(InstructionId id) const {
  const Instruction& it = (*body_)[id];
  if (const std::optional<int64_t> leaf = leaf_of(id)) {
    const CountedLoop::Counter* counter = counted_.counter(*leaf);
    return counter == nullptr ? std::nullopt : std::optional(Affine{counter->first, counter->step});
  }
  switch (it.opcode) {
    case Opcode::Constant:
      if (it.as<ConstantAttributes>().elided) return std::nullopt;
      return Affine{it.as<ConstantAttributes>().value.get_integer(0), 0};
    case Opcode::Convert:
    case Opcode::Reshape:
    case Opcode::Copy:
      return affine(it.operands[0]);
    case Opcode::Add:
    case Opcode::Subtract: {
      const auto a = affine(it.operands[0]), b = affine(it.operands[1]);
      if (!a || !b) return std::nullopt;
      const int64_t sign = it.opcode == Opcode::Add ? 1 : -1;
      return Affine{a->first + sign * b->first, a->slope + sign * b->slope};
    }
    case Opcode::Multiply: {
      auto a = affine(it.operands[0]), b = affine(it.operands[1]);
      if (!a || !b || (a->slope != 0 && b->slope != 0)) return std::nullopt;
      if (b->slope != 0) std::swap(a, b);
      // Larger ones are no indices, and their products may have no 64 bits.
      const auto all_small = [](const auto&... numbers) { return (hlo::fits(numbers, ElementType::S32) && ...); };
      if (!all_small(a->first, a->slope, b->first)) return std::nullopt;
      const Affine product{a->first * b->first, a->slope * b->first};
      return all_small(product.first, product.slope) ? std::optional(product) : std::nullopt;
    }
    case Opcode::Select: {
      // Of indices that count from the end where they are negative: these never are, or always.
      const Instruction& compare = (*body_)[it.operands[0]];
      if (compare.opcode != Opcode::Compare ||
          compare.as<CompareAttributes>().direction != CompareAttributes::Direction::LT)
        return std::nullopt;
      const auto a = affine(compare.operands[0]), b = affine(compare.operands[1]);
      if (!a || !b) return std::nullopt;
      const int64_t first = a->first - b->first;
      const int64_t last = first + (count() - 1) * (a->slope - b->slope);
      if ((first < 0) != (last < 0)) return std::nullopt;
      return affine(it.operands[first < 0 ? 1 : 2]);
    }
    default:
      return std::nullopt;
  }
}

bool LoopRows::covers(const Affine& at, int64_t rows, int64_t size) const {
  if (count() * size != rows) return false;
  return (at.slope == size && at.first == 0) || (at.slope == -size && at.first == rows - size) ||
         (rows == size && at.first == 0);
}

std::optional<LoopRows::Row> LoopRows::row(InstructionId id) const {
  const Instruction& it = (*body_)[id];
  if (it.opcode == Opcode::Convert) {
    std::optional<Row> from = row(it.operands[0]);
    if (from) from->converted.push_back(it.shape.type);
    return from;
  }
  if (it.opcode != Opcode::Reshape) return std::nullopt;
  const Instruction& slice = (*body_)[it.operands[0]];
  if (slice.opcode != Opcode::DynamicSlice || slice.as<DynamicSliceAttributes>().sizes[0] != 1) return std::nullopt;
  const std::optional<int64_t> leaf = leaf_of(slice.operands[0]);
  if (!leaf || !is_invariant(*leaf)) return std::nullopt;
  const std::vector<int64_t>& dims = leaf_shape(*leaf).dims;
  // Whole dimensions begin at 0 wherever they are said to begin.
  if (!are_of_row(it.shape.dims, dims) || !are_of_row(it.shape.dims, slice.shape.dims)) return std::nullopt;
  const std::optional<Affine> at = affine(slice.operands[1]);
  if (!at || !covers(*at, dims[0])) return std::nullopt;
  return Row{*leaf, *at, slice.operands[1]};
}

const Instruction* LoopRows::update_of(int64_t leaf) const {
  const InstructionId next = body_->root_instruction().operands[static_cast<size_t>(leaf)];
  const Instruction& it = (*body_)[next];
  const bool updates = it.opcode == Opcode::DynamicUpdateSlice && uses(next) == 1 && leaf_of(it.operands[0]) == leaf;
  return updates && is_read_once(leaf) ? &it : nullptr;
}

std::optional<LoopRows::Part> LoopRows::part(int64_t leaf) const {
  const Instruction* update = update_of(leaf);
  if (update == nullptr) return std::nullopt;
  const std::vector<int64_t>&all = update->shape.dims, &part = body_->operand_shape(*update, 1).dims;
  const auto cut = std::ranges::mismatch(all, part);
  if (cut.in1 == all.end()) return Part{update->operands[1], 0, {}};
  if (!std::equal(cut.in1 + 1, all.end(), cut.in2 + 1)) return std::nullopt;
  const auto dimension = static_cast<size_t>(cut.in1 - all.begin());
  const std::optional<Affine> at = affine(update->operands[2 + dimension]);
  if (!at || !covers(*at, *cut.in1, *cut.in2)) return std::nullopt;
  return Part{update->operands[1], dimension, *at};
}

std::optional<LoopRows::Written> LoopRows::written(int64_t leaf) const {
  if (update_of(leaf) == nullptr) return std::nullopt;
  const Instruction& update = *update_of(leaf);
  const std::optional<Affine> at = affine(update.operands[2]);
  if (!at || update.shape.rank() < 2 || !covers(*at, update.shape.dims[0])) return std::nullopt;
  Written found{update.operands[1], *at, update.operands[2]};
  bool is_row = false;
  while (uses(found.value) == 1) {
    const Instruction& it = (*body_)[found.value];
    if (it.opcode == Opcode::Convert) {
      found.converted.insert(found.converted.begin(), it.shape.type);
    } else if (it.opcode == Opcode::Reshape && !is_row && it.shape.dims[0] == 1 &&
               are_of_row(body_->operand_shape(it, 0).dims, update.shape.dims) &&
               are_of_row(body_->operand_shape(it, 0).dims, it.shape.dims)) {
      is_row = true;
    } else {
      break;
    }
    found.value = it.operands[0];
  }
  return is_row ? std::optional(std::move(found)) : std::nullopt;
}

std::optional<LoopRows::Sum> LoopRows::sum(int64_t leaf) const {
  const InstructionId next = body_->root_instruction().operands[static_cast<size_t>(leaf)];
  const Instruction& add = (*body_)[next];
  if (add.opcode != Opcode::Add || uses(next) != 1 || !is_read_once(leaf)) return std::nullopt;
  const bool first = leaf_of(add.operands[0]) == leaf;
  if (!first && leaf_of(add.operands[1]) != leaf) return std::nullopt;
  Sum found{add.operands[first ? 1 : 0]};
  while (uses(found.core) == 1) {
    const Instruction& it = (*body_)[found.core];
    if (it.opcode == Opcode::Dot) return found;
    const bool sums = it.opcode == Opcode::Reduce && it.operands.size() == 2 &&
                      is_zero_constant(*body_, it.operands[1]) && adds((*module_)[it.called[0]]);
    const InstructionId operand = it.operands.empty() ? -1 : it.operands[0];
    if (sums) {
      // A sum of a sum: the inner one is the core.
      const Instruction& before = (*body_)[operand];
      const bool goes_on = uses(operand) == 1 && (before.opcode == Opcode::Reduce || before.opcode == Opcode::Reshape ||
                                                  before.opcode == Opcode::Transpose);
      if (!goes_on) return found;
    } else if (it.opcode != Opcode::Transpose && it.opcode != Opcode::Reshape) {
      return std::nullopt;
    }
    found.after.insert(found.after.begin(), found.core);
    found.core = operand;
  }
  return std::nullopt;
}

bool LoopRows::stays(InstructionId id) const {
  constexpr int kMostOperators = 8;
  for (int i = 0; i < kMostOperators; ++i) {
    if (const std::optional<int64_t> leaf = leaf_of(id)) return is_invariant(*leaf);
    switch ((*body_)[id].opcode) {
      case Opcode::Constant:
        return true;
      case Opcode::Convert:
      case Opcode::Reshape:
      case Opcode::Transpose:
        id = (*body_)[id].operands[0];
        break;
      default:
        return false;
    }
  }
  return false;
}

std::optional<InstructionId> LoopRows::counter() const {
  for (InstructionId id = 0; id < std::ssize(body_->instructions); ++id) {
    if (leaf_of(id) && affine(id) == Affine{0, 1}) return id;
  }
  return std::nullopt;
}

}  // namespace strata::hlo
