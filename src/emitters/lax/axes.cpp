#include "emitters/lax/axes.h"

#include <algorithm>
#include <set>

#include "emitters/lax/dimension_classes.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

/// What stands before or behind a class: one other class, the end of a value, or not always the same.
constexpr int kUnseen = -3, kEnd = -2, kSeveral = -1;

void note(int& neighbour, int seen) { neighbour = neighbour == kUnseen || neighbour == seen ? seen : kSeveral; }

}  // namespace

JoinedAxes::JoinedAxes(const Computation& computation) {
  const DimensionClasses classes(computation);
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
