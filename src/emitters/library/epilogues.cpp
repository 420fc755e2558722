// What comes behind a product or convolution, and the library does with it.
#include <cmath>
#include <complex>
#include <set>

#include "emitters/library/call_plan.h"
#include "hlo/compute.h"

namespace strata::emitters {
namespace {

using hlo::Computation;
using hlo::Instruction;
using hlo::InstructionId;
using hlo::Opcode;

bool near(double value, double expected) { return std::abs(value - expected) <= 5e-3 * std::abs(expected); }

/// The factors of a product of the value `x`, and of what is made of it.
struct Factors {
  double constant = 1;
  int of_x = 0;
  std::vector<InstructionId> others;
};

class GeluMatcher {
 public:
  GeluMatcher(const Computation& computation, const Users& users, InstructionId x)
      : computation_(computation), users_(users), x_(x) {}

  /// The instruction that is x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) / 2, if there is one and nothing else reads
  /// x or what lies between.
  std::optional<InstructionId> find() {
    for (InstructionId id = x_ + 1; id < static_cast<InstructionId>(computation_.instructions.size()); ++id) {
      if (computation_[id].opcode != Opcode::Multiply || computation_[id].shape != computation_[x_].shape) continue;
      seen_.clear();
      if (is_gelu(id) && is_closed(id)) return id;
    }
    return std::nullopt;
  }

 private:
  bool is_gelu(InstructionId id) {
    const Factors all = factors(id);
    if (all.of_x != 1 || all.others.size() != 1 || !near(all.constant, 0.5)) return false;
    const auto [sum, one] = operand_and_constant(all.others[0], Opcode::Add);
    if (!sum || !near(one, 1) || computation_[*sum].opcode != Opcode::Tanh) return false;
    seen_.insert(*sum);
    const Factors inner = factors(computation_[*sum].operands[0]);
    if (inner.of_x != 0 || inner.others.size() != 1 || !near(inner.constant, std::sqrt(2 / M_PI))) return false;
    const Instruction& polynomial = computation_[inner.others[0]];
    if (polynomial.opcode != Opcode::Add) return false;
    seen_.insert(inner.others[0]);
    for (const size_t linear : {0, 1}) {
      if (polynomial.operands[linear] != x_) continue;
      const Factors cubic = factors(polynomial.operands[1 - linear]);
      if (cubic.of_x == 3 && cubic.others.empty() && near(cubic.constant, 0.044715)) return true;
    }
    return false;
  }

  Factors factors(InstructionId id) {
    Factors all;
    collect(id, all);
    return all;
  }

  void collect(InstructionId id, Factors& all) {
    if (id == x_) {
      ++all.of_x;
    } else if (const std::optional<double> value = constant_value(computation_, id)) {
      all.constant *= *value;
    } else if (computation_[id].opcode == Opcode::Multiply) {
      seen_.insert(id);
      for (const InstructionId operand : computation_[id].operands) collect(operand, all);
    } else {
      all.others.push_back(id);
    }
  }

  std::pair<std::optional<InstructionId>, double> operand_and_constant(InstructionId id, Opcode opcode) {
    const Instruction& it = computation_[id];
    if (it.opcode != opcode) return {};
    seen_.insert(id);
    for (const size_t i : {0, 1}) {
      if (const auto value = constant_value(computation_, it.operands[i])) return {it.operands[1 - i], *value};
    }
    return {};
  }

  /// Whether x and what lies between it and the result is read by nothing else.
  bool is_closed(InstructionId result) const {
    const auto closed = [&](InstructionId id) {
      const auto& readers = users_[static_cast<size_t>(id)];
      return std::all_of(readers.begin(), readers.end(), [&](InstructionId user) { return seen_.contains(user); });
    };
    return closed(x_) &&
           std::all_of(seen_.begin(), seen_.end(), [&](InstructionId id) { return id == result || closed(id); });
  }

  const Computation& computation_;
  const Users& users_;
  const InstructionId x_;
  std::set<InstructionId> seen_;
};

}  // namespace

std::optional<double> constant_value(const Computation& computation, InstructionId id) {
  const Instruction* it = &computation[id];
  while (it->opcode == Opcode::Broadcast || it->opcode == Opcode::Reshape || it->opcode == Opcode::Convert) {
    it = &computation[it->operands[0]];
  }
  if (it->opcode != Opcode::Constant || it->shape.element_count() != 1) return std::nullopt;
  if (hlo::is_complex(it->shape.type)) {
    const auto value = hlo::load_all<std::complex<double>>(it->as<hlo::ConstantAttributes>().value)[0];
    return value.imag() == 0 ? std::optional(value.real()) : std::nullopt;
  }
  if (!library_type(it->shape.type)) return std::nullopt;
  return hlo::load_all<double>(it->as<hlo::ConstantAttributes>().value)[0];
}

std::optional<DType> library_type(hlo::ElementType type) {
  switch (type) {
    case hlo::ElementType::F16:
      return DType::F16;
    case hlo::ElementType::BF16:
      return DType::BF16;
    case hlo::ElementType::F32:
      return DType::F32;
    case hlo::ElementType::F64:
      return DType::F64;
    default:
      return std::nullopt;
  }
}

std::optional<InstructionId> relu_of(const Computation& computation, const Users& users, InstructionId id) {
  const std::optional<InstructionId> user = only_user(users, id);
  if (!user || computation[*user].opcode != Opcode::Maximum) return std::nullopt;
  const Instruction& it = computation[*user];
  const InstructionId other = it.operands[it.operands[0] == id ? 1 : 0];
  return constant_value(computation, other) == 0.0 ? user : std::nullopt;
}

std::optional<InstructionId> gelu_of(const Computation& computation, const Users& users, InstructionId id) {
  return GeluMatcher(computation, users, id).find();
}

}  // namespace strata::emitters
