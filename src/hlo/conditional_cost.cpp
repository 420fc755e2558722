#include "hlo/conditional_cost.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "hlo/source_of.h"

namespace strata::hlo {
namespace {

/// A branch that is computed whether or not it is taken moves at most so many elements: a GPU does that in a few µs, in
/// which it decides whether a branch is to run.
constexpr double kMostElements = 1 << 22;
constexpr double kElementsOfReduction = 1 << 20;  ///< that are moved in the time of a kernel of its own
constexpr double kOperatorsOfElement = 8;         ///< of one thread, in the time in which an element is moved
constexpr int64_t kMostInstructions = 128;        ///< of all such branches

/// Tuples within tuples stay as they are.
bool is_flat(const Shape& shape) {
  return !shape.is_tuple() || std::all_of(shape.elements.begin(), shape.elements.end(),
                                          [](const Shape& element) { return element.is_array(); });
}

/// Operators of one element of the result each, or of none.
bool is_cheap(Opcode opcode) {
  switch (opcode) {
    case Opcode::Parameter:
    case Opcode::Constant:
    case Opcode::Tuple:
    case Opcode::GetTupleElement:
    case Opcode::Iota:
    case Opcode::Broadcast:
    case Opcode::Reshape:
    case Opcode::Transpose:
    case Opcode::Reverse:
    case Opcode::Slice:
    case Opcode::DynamicSlice:
    case Opcode::Concatenate:
    case Opcode::Pad:
      return true;
    default:
      return is_elementwise(opcode);
  }
}

double elements_of(const Shape& shape) {
  if (shape.is_array()) return static_cast<double>(shape.element_count());
  double sum = 0;
  for (const Shape& element : shape.elements) sum += elements_of(element);
  return sum;
}

/// Operators without code of their own in a fused kernel.
bool is_free(Opcode opcode) {
  return opcode == Opcode::Parameter || opcode == Opcode::Constant || opcode == Opcode::Tuple ||
         opcode == Opcode::GetTupleElement || opcode == Opcode::Broadcast || opcode == Opcode::Reshape;
}

/// What computing a computation costs, whether or not its result is needed, beside reading and writing what it is given
/// and returns.
struct Cost {
  double elements = 0;
  int64_t instructions = 0;
  bool reduces = false;
};

/// Nothing where an operator may take long, or forever.
std::optional<Cost> cost_of(const Module& module, const Computation& computation) {
  Cost sum;
  for (const Instruction& it : computation.instructions) {
    if (it.opcode == Opcode::Call || it.opcode == Opcode::Conditional) {
      for (const ComputationId called : it.called) {
        const std::optional<Cost> inner = cost_of(module, module[called]);
        if (!inner) return std::nullopt;
        sum.elements += inner->elements;
        sum.instructions += inner->instructions;
        sum.reduces = sum.reduces || inner->reduces;
      }
    } else if (it.opcode == Opcode::Reduce) {
      for (size_t k = 0; k < it.operands.size() / 2; ++k) sum.elements += elements_of(computation.operand_shape(it, k));
      sum.elements += kElementsOfReduction;
      ++sum.instructions;
      sum.reduces = true;
    } else if (!is_cheap(it.opcode)) {
      return std::nullopt;
    } else if (!is_free(it.opcode)) {
      sum.elements += elements_of(it.shape) / kOperatorsOfElement;
      ++sum.instructions;
    }
  }
  return sum;
}

using Leaf = std::pair<InstructionId, int64_t>;
using Elements = std::map<Leaf, double>;  ///< of arrays, by what computes them

double sum_of(const Elements& elements) {
  return std::accumulate(elements.begin(), elements.end(), 0.0,
                         [](double sum, const auto& one) { return sum + one.second; });
}

/// Elements that a branch reads of the leaves of what it is given, by their numbers.
std::map<int64_t, double> elements_read(const Computation& branch) {
  std::map<int64_t, double> read;
  for (const Instruction& it : branch.instructions) {
    if (it.opcode == Opcode::Tuple || it.opcode == Opcode::GetTupleElement) continue;
    const bool in_part = it.opcode == Opcode::Slice || it.opcode == Opcode::DynamicSlice;
    for (const InstructionId operand : it.operands) {
      for (int64_t leaf = 0; leaf < leaf_count(branch[operand].shape); ++leaf) {
        const auto [source, number] = source_of(branch, operand, leaf);
        if (branch[source].opcode != Opcode::Parameter) continue;
        const double whole = elements_of(leaf_of(branch[source].shape, number));
        double& sum = read[number];
        sum = std::min(whole, sum + (in_part ? elements_of(it.shape) : whole));
      }
    }
  }
  return read;
}

/// What the branches of one conditional cost.
class Branches {
 public:
  Branches(const Module& module, const Computation& computation, const Instruction& it, const InputOutputAliases& given)
      : module_(module), computation_(computation), it_(it), given_(given) {
    for (const ComputationId called : it.called) costs_.push_back(cost_of(module, module[called]));
  }

  std::vector<bool> cheap() const {
    if (!is_flat(it_.shape)) return std::vector<bool>(costs_.size(), false);
    if (all_in_passing()) return std::vector<bool>(costs_.size(), true);
    std::vector<bool> cheap;
    int64_t instructions = 0;
    for (size_t k = 0; k < costs_.size(); ++k) {
      double moved = elements_of(it_.shape);
      for (const auto& [number, elements] : elements_read(branch(k))) moved += elements;
      cheap.push_back(costs_[k] && costs_[k]->elements + moved <= kMostElements &&
                      instructions + costs_[k]->instructions <= kMostInstructions);
      if (cheap.back()) instructions += costs_[k]->instructions;
    }
    return cheap;
  }

 private:
  const Computation& branch(size_t k) const { return module_[it_.called[k]]; }

  /// Whether all branches are elementwise and together move hardly more than any of them alone.
  bool all_in_passing() const {
    double operators = 0;
    int64_t instructions = 0;
    for (const std::optional<Cost>& cost : costs_) {
      if (!cost || cost->reduces) return false;
      operators += cost->elements;
      instructions += cost->instructions;
    }
    if (instructions > kMostInstructions * leaf_count(it_.shape)) return false;
    Elements all;
    double least = std::numeric_limits<double>::infinity();
    for (size_t k = 0; k < costs_.size(); ++k) least = std::min(least, moved_alone(k, all));
    const double together = sum_of(all) + elements_of(it_.shape);
    return together - least + std::max(0.0, operators - together) <= kMostElements;
  }

  /// Elements that are read and written where branch k alone is computed; what is read where all are goes to `all`.
  double moved_alone(size_t k, Elements& all) const {
    Elements read;
    const auto reads = [&](Elements& by, const Leaf& value, double elements) {
      double& most = by[value];
      most = std::max(most, is_written_here(value) ? 0 : elements);
    };
    for (const auto& [number, elements] : elements_read(branch(k))) {
      const Leaf value = source_of(computation_, it_.operands[k + 1], number);
      reads(read, value, elements);
      reads(all, value, elements);
    }
    double written = 0;
    for (int64_t leaf = 0; leaf < leaf_count(it_.shape); ++leaf) {
      const double elements = elements_of(leaf_of(it_.shape, leaf));
      const auto [source, number] = source_of(branch(k), branch(k).root, leaf);
      if (branch(k)[source].opcode != Opcode::Parameter) {
        written += elements;
        continue;
      }
      const Leaf value = source_of(computation_, it_.operands[k + 1], number);
      reads(all, value, elements);
      if (!is_written_here(value) && !is_kept(value)) continue;  // the result is where the array is
      reads(read, value, elements);
      written += elements;
    }
    return sum_of(read) + written;
  }

  /// Whether the kernel that writes a value can go on with what is computed of it.
  bool is_written_here(const Leaf& value) const {
    const Opcode opcode = computation_[value.first].opcode;
    return is_elementwise(opcode) || opcode == Opcode::Broadcast || opcode == Opcode::Iota;
  }

  /// Whether a result that equals a value must be a copy of it.
  bool is_kept(const Leaf& value) const {
    const Instruction& it = computation_[value.first];
    if (it.opcode == Opcode::Constant) return true;
    if (it.opcode != Opcode::Parameter || &computation_ != &module_.entry_computation()) return false;
    return std::none_of(given_.begin(), given_.end(), [&](const InputOutputAlias& one) {
      return one.parameter == it.as<ParameterAttributes>().number &&
             leaf_at(it.shape, one.parameter_index) == value.second;
    });
  }

  const Module& module_;
  const Computation& computation_;
  const Instruction& it_;
  const InputOutputAliases& given_;
  std::vector<std::optional<Cost>> costs_;
};

}  // namespace

std::vector<bool> cheap_branches(const Module& module, const Computation& computation, const Instruction& conditional,
                                 const InputOutputAliases& given) {
  return Branches(module, computation, conditional, given).cheap();
}

std::optional<std::vector<int64_t>> passed_through(const Computation& branch) {
  const Shape& given = branch[branch.parameters[0]].shape;
  const Shape& result = branch.root_instruction().shape;
  if (!is_flat(given) || !is_flat(result)) return std::nullopt;
  std::vector<int64_t> leaves;
  for (int64_t leaf = 0; leaf < leaf_count(result); ++leaf) {
    const auto [source, number] = source_of(branch, branch.root, leaf);
    if (branch[source].opcode != Opcode::Parameter) return std::nullopt;
    leaves.push_back(number);
  }
  return leaves;
}

}  // namespace strata::hlo
