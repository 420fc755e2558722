#include "emitters/lax/axes.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

/// Which dimensions of which values are walked together: classes of (instruction, dimension).
class Classes {
 public:
  explicit Classes(const Computation& computation) : computation_(computation) {
    int next = 0;
    for (const Instruction& it : computation.instructions) {
      first_.push_back(next);
      next += static_cast<int>(it.shape.dims.size());
    }
    parent_.resize(static_cast<size_t>(next));
    std::iota(parent_.begin(), parent_.end(), 0);
    for (size_t i = 0; i < computation.instructions.size(); ++i) tie(static_cast<InstructionId>(i));
  }

  int of(InstructionId id, int64_t dimension) {
    int at = first_[static_cast<size_t>(id)] + static_cast<int>(dimension);
    while (parent_[static_cast<size_t>(at)] != at) at = parent_[static_cast<size_t>(at)];
    return at;
  }
  size_t count() const { return parent_.size(); }

 private:
  void tie(InstructionId a, int64_t of_a, InstructionId b, int64_t of_b) {
    parent_[static_cast<size_t>(of(a, of_a))] = of(b, of_b);
  }

  void tie_dot(InstructionId id, const Instruction& it) {
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

  /// Dimensions that a reshape keeps as they are.
  void tie_reshape(InstructionId id, const Instruction& it) {
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

  void tie(InstructionId id) {
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

  const Computation& computation_;
  std::vector<int> first_, parent_;
};

/// What stands before or behind a class: one other class, the end of a value, or not always the same.
constexpr int kUnseen = -3, kEnd = -2, kSeveral = -1;

void note(int& neighbour, int seen) { neighbour = neighbour == kUnseen || neighbour == seen ? seen : kSeveral; }

}  // namespace

JoinedAxes::JoinedAxes(const Computation& computation) {
  Classes classes(computation);
  std::vector<int> behind(classes.count(), kUnseen), before(classes.count(), kUnseen);
  for (size_t i = 0; i < computation.instructions.size(); ++i) {
    const Instruction& it = computation.instructions[i];
    if (it.opcode != Opcode::Iota) continue;
    const int counts = classes.of(static_cast<InstructionId>(i), it.dimensions()[0]);
    behind[static_cast<size_t>(counts)] = before[static_cast<size_t>(counts)] = kSeveral;
  }
  for (size_t i = 0; i < computation.instructions.size(); ++i) {
    const auto id = static_cast<InstructionId>(i);
    std::vector<int> row;
    const hlo::Shape& shape = computation[id].shape;
    for (int64_t d = 0; d < shape.rank(); ++d)
      if (shape.dim(d) != 1) row.push_back(classes.of(id, d));
    const std::set<int> different(row.begin(), row.end());
    for (size_t k = 0; k < row.size(); ++k) {
      // A class that a value has twice stays as it is.
      const bool twice = different.size() < row.size();
      note(behind[static_cast<size_t>(row[k])], twice ? kSeveral : k + 1 < row.size() ? row[k + 1] : kEnd);
      note(before[static_cast<size_t>(row[k])], twice ? kSeveral : k > 0 ? row[k - 1] : kEnd);
    }
  }
  for (size_t i = 0; i < computation.instructions.size(); ++i) {
    const auto id = static_cast<InstructionId>(i);
    std::vector<int64_t>& sizes = sizes_.emplace_back();
    std::vector<int>& joined = joined_.emplace_back();
    const hlo::Shape& shape = computation[id].shape;
    int last = kEnd;
    for (int64_t d = 0; d < shape.rank(); ++d) {
      if (shape.dim(d) == 1) {
        joined.push_back(-1);
        continue;
      }
      const int here = classes.of(id, d);
      const bool joins =
          last >= 0 && behind[static_cast<size_t>(last)] == here && before[static_cast<size_t>(here)] == last;
      if (joins) {
        sizes.back() *= shape.dim(d);
      } else {
        sizes.push_back(shape.dim(d));
      }
      joined.push_back(static_cast<int>(sizes.size()) - 1);
      last = here;
    }
  }
}

std::vector<int> JoinedAxes::sources(InstructionId id, const Instruction& it) const {
  std::vector<int> old_ones(sizes(id).size(), -1);
  const bool repeats = it.opcode == Opcode::Broadcast;
  for (size_t i = 0; i < it.dimensions().size(); ++i) {
    const auto here = static_cast<int64_t>(i), there = it.dimensions()[i];
    const int from = joined(it.operands[0], repeats ? here : there);
    const int to = joined(id, repeats ? there : here);
    if (from >= 0 && to >= 0) old_ones[static_cast<size_t>(to)] = from;
  }
  return old_ones;
}

std::vector<int> JoinedAxes::joined(InstructionId id, const std::vector<int64_t>& dimensions) const {
  std::vector<int> result;
  for (const int64_t d : dimensions) {
    const int one = joined(id, d);
    if (one >= 0 && std::find(result.begin(), result.end(), one) == result.end()) result.push_back(one);
  }
  return result;
}

}  // namespace strata::emitters
