#include "emitters/lax/dimension_classes.h"

#include <algorithm>
#include <numeric>

namespace strata::emitters {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

DimensionClasses::DimensionClasses(const Computation& computation) : computation_(computation) {
  int next = 0;
  for (const Instruction& it : computation.instructions) {
    first_.push_back(next);
    next += static_cast<int>(it.shape.dims.size());
  }
  parent_.resize(static_cast<size_t>(next));
  std::iota(parent_.begin(), parent_.end(), 0);
  for (size_t i = 0; i < computation.instructions.size(); ++i) tie(static_cast<InstructionId>(i));
}

int DimensionClasses::of(InstructionId id, int64_t dimension) const {
  int at = first_[static_cast<size_t>(id)] + static_cast<int>(dimension);
  while (parent_[static_cast<size_t>(at)] != at) at = parent_[static_cast<size_t>(at)];
  return at;
}

void DimensionClasses::tie(InstructionId a, int64_t of_a, InstructionId b, int64_t of_b) {
  parent_[static_cast<size_t>(of(a, of_a))] = of(b, of_b);
}

void DimensionClasses::tie_dot(InstructionId id, const Instruction& it) {
  const auto& a = it.as<hlo::DotAttributes>();
  const InstructionId lhs = it.operands[0], rhs = it.operands[1];
  for (size_t i = 0; i < a.lhs_contracting.size(); ++i) tie(lhs, a.lhs_contracting[i], rhs, a.rhs_contracting[i]);
  int64_t next = 0;
  for (size_t i = 0; i < a.lhs_batch.size(); ++i, ++next) {
    tie(lhs, a.lhs_batch[i], rhs, a.rhs_batch[i]);
    tie(lhs, a.lhs_batch[i], id, next);
  }
  const auto tie_free = [&](InstructionId operand, const std::vector<int64_t>& batch,
                            const std::vector<int64_t>& terms) {
    for (int64_t d = 0; d < computation_[operand].shape.rank(); ++d) {
      const bool kept = std::find(batch.begin(), batch.end(), d) == batch.end() &&
                        std::find(terms.begin(), terms.end(), d) == terms.end();
      if (kept) tie(operand, d, id, next++);
    }
  };
  tie_free(lhs, a.lhs_batch, a.lhs_contracting);
  tie_free(rhs, a.rhs_batch, a.rhs_contracting);
}

void DimensionClasses::tie_reshape(InstructionId id, const Instruction& it) {
  const InstructionId from = it.operands[0];
  const std::vector<int64_t>& old_sizes = computation_[from].shape.dims;
  const std::vector<int64_t>& new_sizes = it.shape.dims;
  size_t o = 0, n = 0;
  while (o < old_sizes.size() && n < new_sizes.size()) {
    if (old_sizes[o] == 1) {
      ++o;
    } else if (new_sizes[n] == 1) {
      ++n;
    } else if (old_sizes[o] == new_sizes[n]) {
      tie(from, static_cast<int64_t>(o++), id, static_cast<int64_t>(n++));
    } else {
      int64_t olds = old_sizes[o++], news = new_sizes[n++];
      while (olds != news) (olds < news ? olds *= old_sizes[o++] : news *= new_sizes[n++]);
    }
  }
}

void DimensionClasses::tie(InstructionId id) {
  const Instruction& it = computation_[id];
  switch (it.opcode) {
    case Opcode::Dot:
      return tie_dot(id, it);
    case Opcode::Reshape:
    case Opcode::Bitcast:
      return tie_reshape(id, it);
    case Opcode::Broadcast:
      for (size_t i = 0; i < it.dimensions().size(); ++i)
        tie(it.operands[0], static_cast<int64_t>(i), id, it.dimensions()[i]);
      return;
    case Opcode::Transpose:
      for (size_t i = 0; i < it.dimensions().size(); ++i)
        tie(it.operands[0], it.dimensions()[i], id, static_cast<int64_t>(i));
      return;
    case Opcode::Reduce: {
      int64_t next = 0;
      const auto& reduced = it.dimensions();
      for (int64_t d = 0; d < computation_.operand_shape(it, 0).rank(); ++d)
        if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) tie(it.operands[0], d, id, next++);
      return;
    }
    default:
      for (const InstructionId operand : it.operands) {
        if (!hlo::same_dims(computation_[operand].shape, it.shape)) continue;
        for (int64_t d = 0; d < it.shape.rank(); ++d) tie(operand, d, id, d);
      }
  }
}

}  // namespace strata::emitters
