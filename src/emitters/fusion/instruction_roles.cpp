#include "emitters/fusion/instruction_roles.h"

#include <algorithm>
#include <map>
#include <utility>

#include "emitters/kinds/product/product.h"
#include "emitters/kinds/reduction_shape.h"
#include "hlo/indexing/evaluations.h"
#include "hlo/indexing/serial_terms.h"
#include "hlo/scan_window.h"
#include "hlo/source_of.h"

namespace strata::emitters {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

bool is_interpreted(const Instruction& it) {
  switch (it.opcode) {
    case Opcode::While:
    case Opcode::Conditional:
    case Opcode::RngBitGenerator:
    case Opcode::Scan:
    case Opcode::SelectAndScatter:
      return true;
    default:
      return hlo::family(it.opcode) == hlo::Family::LinearAlgebra || hlo::family(it.opcode) == hlo::Family::Unsupported;
  }
}

bool is_alone(const Computation& computation, InstructionId id) {
  const Instruction& it = computation[id];
  return is_interpreted(it) || it.opcode == Opcode::Call || it.opcode == Opcode::Convolution ||
         (it.opcode == Opcode::Dot && !product_shape(computation, id));
}

bool is_sort(const Instruction& it) { return it.opcode == Opcode::Sort || it.opcode == Opcode::TopK; }

bool keeps_places(const Instruction& it) {
  return hlo::is_elementwise(it.opcode) || it.opcode == Opcode::Broadcast || it.opcode == Opcode::Reshape ||
         it.opcode == Opcode::Bitcast || it.opcode == Opcode::Iota;
}

std::vector<bool> known_values(const Computation& computation) {
  // A longer chain of such operators is code like any other: every group has all of it.
  constexpr int kLongest = 16;
  std::vector<int> depths;  // of the operators on a constant, -1 where it is none
  for (const Instruction& it : computation.instructions) {
    const auto of_operand = [&] { return depths[static_cast<size_t>(it.operands[0])]; };
    int depth = -1;
    switch (it.opcode) {
      case Opcode::Constant:
      case Opcode::Iota:
      case Opcode::GetDimensionSize:
      case Opcode::PartitionId:
      case Opcode::ReplicaId:
        depth = 0;
        break;
      case Opcode::Broadcast:
      case Opcode::Convert:
      case Opcode::Reshape:
        if (computation.operand_shape(it, 0).element_count() == 1 && of_operand() >= 0 && of_operand() < kLongest)
          depth = of_operand() + 1;
        break;
      default:
        break;
    }
    depths.push_back(depth);
  }
  std::vector<bool> known;
  for (const int depth : depths) known.push_back(depth >= 0);
  return known;
}

std::vector<bool> used_values(const Computation& computation) {
  std::vector<bool> used(computation.instructions.size(), false);
  const auto use = [&](InstructionId id) {
    used[static_cast<size_t>(id)] = true;
    for (int64_t leaf = 0; leaf < hlo::leaf_count(computation[id].shape); ++leaf)
      used[static_cast<size_t>(hlo::source_of(computation, id, leaf).first)] = true;
  };
  use(computation.root);
  for (InstructionId id = computation.root; id >= 0; --id) {
    if (!used[static_cast<size_t>(id)]) continue;
    const Instruction& it = computation[id];
    const bool passes_on = it.opcode == Opcode::Tuple || it.opcode == Opcode::GetTupleElement;
    for (const InstructionId operand : it.operands) {
      if (!passes_on) use(operand);
      if (is_name(computation[operand].opcode)) used[static_cast<size_t>(operand)] = true;
    }
  }
  return used;
}

std::vector<bool> free_reshapes(const Computation& computation) {
  const size_t count = computation.instructions.size();
  std::vector<bool> free(count, false);
  std::vector<int> readers(count, 0);
  for (InstructionId id = computation.root; id >= 0; --id) {
    for (const InstructionId operand : computation[id].operands) ++readers[static_cast<size_t>(operand)];
  }
  for (InstructionId id = 0; id < computation.root; ++id) {
    const Instruction& it = computation[id];
    const bool moves_nothing = it.opcode == Opcode::Reshape && it.shape.has_default_layout() &&
                               computation.operand_shape(it, 0).has_default_layout();
    const Opcode from = moves_nothing ? computation[it.operands[0]].opcode : Opcode::Tuple;
    const bool stored =
        from == Opcode::Parameter || (from == Opcode::Reshape && free[static_cast<size_t>(it.operands[0])]);
    free[static_cast<size_t>(id)] = moves_nothing && stored && readers[static_cast<size_t>(id)] > 0;
  }
  // All readers take it where it is: emitters of other forms ask for an array.
  for (InstructionId id = computation.root; id >= 0; --id) {
    const Instruction& it = computation[id];
    for (size_t k = 0; k < it.operands.size(); ++k) {
      const bool index_or_update = it.opcode == Opcode::Scatter && k >= it.operands.size() / 2;
      const bool takes = hlo::is_elementwise(it.opcode) || it.opcode == Opcode::Broadcast ||
                         it.opcode == Opcode::Gather || index_or_update ||
                         (it.opcode == Opcode::Reshape && free[static_cast<size_t>(id)]);
      if (!takes) free[static_cast<size_t>(it.operands[k])] = false;
    }
  }
  return free;
}

bool sums_many_terms(const Computation& computation) {
  const std::vector<indexing::SerialTerms> terms = indexing::serial_terms(computation, {});
  return std::any_of(terms.begin(), terms.end(),
                     [](const indexing::SerialTerms& it) { return it.all > indexing::kFewTerms; });
}

std::vector<int> long_reductions(const Computation& computation) {
  std::map<std::vector<std::pair<int64_t, bool>>, int> shapes;
  std::vector<int> result;
  for (const Instruction& it : computation.instructions) {
    result.push_back(kNoReduction);
    if (it.opcode == Opcode::Dot || hlo::scan_window(computation, it)) result.back() = kOtherReduction;
    if (it.opcode != Opcode::Reduce || !indexing::is_long_reduction(computation, it)) continue;
    std::vector<std::pair<int64_t, bool>> shape;
    for (const DimensionGroup& group : dimension_groups(computation.operand_shape(it, 0), it.dimensions()))
      shape.emplace_back(group.size, group.reduced);
    result.back() = shapes.try_emplace(std::move(shape), static_cast<int>(shapes.size())).first->second;
  }
  return result;
}

bool is_operator(const Instruction& it) {
  const bool moves = it.opcode == Opcode::Tuple || it.opcode == Opcode::GetTupleElement ||
                     it.opcode == Opcode::Broadcast || it.operands.empty();
  // Scalars cost nothing: initial values, what follows from a sum of all.
  return it.opcode == Opcode::Reduce || (!moves && indexing::elements_of(it.shape) > 1);
}

bool is_name(Opcode opcode) {
  return opcode == Opcode::Tuple || opcode == Opcode::GetTupleElement || opcode == Opcode::AfterAll;
}

bool is_read_once(const Computation& computation, InstructionId id, int64_t leaf) {
  if (computation[id].opcode == Opcode::Parameter || !hlo::leaf_of(computation[id].shape, leaf).is_array())
    return false;
  const auto has_it = [&](InstructionId value) {
    for (int64_t k = 0; k < hlo::leaf_count(computation[value].shape); ++k) {
      if (hlo::source_of(computation, value, k) == std::pair(id, leaf)) return true;
    }
    return false;
  };
  const auto reads = [&](const Instruction& it) {
    return !is_name(it.opcode) && std::ranges::any_of(it.operands, has_it);
  };
  return !has_it(computation.root) && std::ranges::count_if(computation.instructions, reads) == 1;
}

}  // namespace strata::emitters
