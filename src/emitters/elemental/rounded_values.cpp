#include "emitters/elemental/rounded_values.h"

#include <algorithm>

#include "hlo/compute.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

constexpr std::ptrdiff_t kMostFunctions = 4;

/// Those of which emitters/math has a version for results of 16 bits.
bool has_short_function(Opcode opcode) {
  switch (opcode) {
    case Opcode::Erf:
    case Opcode::Exp:
    case Opcode::Log:
    case Opcode::Logistic:
    case Opcode::Tanh:
      return true;
    default:
      return false;
  }
}

/// The operator of a reducer (a, b) → a op b.
std::optional<Opcode> reducer(const hlo::Module& module, const Instruction& reduce) {
  if (reduce.operands.size() != 2) return std::nullopt;
  const Computation& called = module[reduce.called[0]];
  const Instruction& root = called.root_instruction();
  if (called.parameters.size() != 2 || root.operands.size() != 2) return std::nullopt;
  if (!std::is_permutation(root.operands.begin(), root.operands.end(), called.parameters.begin())) return std::nullopt;
  return root.opcode;
}

bool is_float(const hlo::Shape& shape) { return shape.is_array() && hlo::kind(shape.type) == hlo::TypeKind::Float; }

/// Elements of the result are elements of the first operand.
bool moves(Opcode opcode) {
  switch (opcode) {
    case Opcode::Broadcast:
    case Opcode::Copy:
    case Opcode::Reshape:
    case Opcode::Reverse:
    case Opcode::Slice:
    case Opcode::Transpose:
      return true;
    default:
      return false;
  }
}

class Analysis {
 public:
  Analysis(const hlo::Module& module, const Computation& computation) : module_(module), computation_(computation) {
    const size_t count = computation.instructions.size();
    for (size_t i = 0; i < count; ++i) not_negative_.push_back(cannot_be_negative(computation.instructions[i]));
    rounded_.assign(count, true);
    std::vector<bool> used(count);
    rounded_[static_cast<size_t>(computation.root)] = false;
    for (size_t i = count; i-- > 0;) {
      const Instruction& it = computation.instructions[i];
      if (!used[i]) rounded_[i] = false;
      for (size_t k = 0; k < it.operands.size(); ++k) {
        const auto operand = static_cast<size_t>(it.operands[k]);
        used[operand] = true;
        if (!keeps(i, k)) rounded_[operand] = false;
      }
    }
  }

  std::vector<bool> functions() const {
    std::vector<bool> result(rounded_.size());
    for (size_t i = 0; i < result.size(); ++i) {
      const Instruction& it = computation_.instructions[i];
      result[i] =
          rounded_[i] && it.shape.is_array() && it.shape.type == hlo::ElementType::F32 && has_short_function(it.opcode);
    }
    if (std::count(result.begin(), result.end(), true) > kMostFunctions) result.assign(result.size(), false);
    return result;
  }

 private:
  bool cannot_be_negative(const Instruction& it) const {
    const auto operand = [&](size_t k) { return bool{not_negative_[static_cast<size_t>(it.operands[k])]}; };
    if (!is_float(it.shape)) return false;
    if (moves(it.opcode)) return operand(0);
    switch (it.opcode) {
      case Opcode::Abs:
      case Opcode::Exp:
      case Opcode::Logistic:
      case Opcode::Sqrt:
        return true;
      case Opcode::Add:
      case Opcode::Divide:
        return operand(0) && operand(1);
      case Opcode::Multiply:
        return it.operands[0] == it.operands[1] || (operand(0) && operand(1));
      case Opcode::Maximum:
        return operand(0) || operand(1);
      case Opcode::Convert:
        return operand(0);
      case Opcode::Reduce:
        return operand(0) && operand(1) && (reducer(module_, it) == Opcode::Add);
      case Opcode::Constant: {
        const hlo::Literal& value = it.as<hlo::ConstantAttributes>().value;
        return it.shape.type == hlo::ElementType::F32 && value.size() == 1 && value.get<float>(0) >= 0;
      }
      default:
        return false;
    }
  }

  /// Whether what is made of operand k is as exact as the operand, and is rounded.
  bool keeps(size_t user, size_t k) const {
    const Instruction& it = computation_.instructions[user];
    const auto not_negative = [&](size_t operand) {
      return bool{not_negative_[static_cast<size_t>(it.operands[operand])]};
    };
    if (!is_float(it.shape) || !is_float(computation_.operand_shape(it, k))) return false;
    if (moves(it.opcode)) return rounded_[user];
    switch (it.opcode) {
      case Opcode::Convert:
        return hlo::bit_width(it.shape.type) <= 16 || rounded_[user];
      case Opcode::Abs:
      case Opcode::Divide:
      case Opcode::Maximum:
      case Opcode::Minimum:
      case Opcode::Multiply:
      case Opcode::Negate:
      case Opcode::Select:
      case Opcode::Sqrt:
        return rounded_[user];
      case Opcode::Add:
        return rounded_[user] && not_negative(0) && not_negative(1);
      case Opcode::Reduce: {
        const std::optional<Opcode> by = reducer(module_, it);
        const bool extremum = by == Opcode::Maximum || by == Opcode::Minimum;
        const bool sum = by == Opcode::Add && not_negative(0) && not_negative(1);
        return rounded_[user] && (extremum || sum);
      }
      default:
        return false;
    }
  }

  const hlo::Module& module_;
  const Computation& computation_;
  std::vector<bool> not_negative_, rounded_;
};

}  // namespace

std::vector<bool> functions_rounded_to_half(const hlo::Module& module, hlo::ComputationId computation) {
  return Analysis(module, module[computation]).functions();
}

}  // namespace strata::emitters
