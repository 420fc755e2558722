#include "hlo/element_work.h"

#include <optional>
#include <vector>

namespace strata::hlo {
namespace {

/// Operators on complex numbers that are computed in f64: conversions, several products or functions.
bool is_complex_in_f64(const Computation& computation, const Instruction& it) {
  const auto has_complex = [](const Shape& shape) { return shape.is_array() && is_complex(shape.type); };
  if (!is_elementwise(it.opcode) || it.operands.empty() || !has_complex(computation.operand_shape(it, 0))) return false;
  switch (it.opcode) {
    case Opcode::Abs:
    case Opcode::Add:
    case Opcode::Compare:
    case Opcode::Convert:
    case Opcode::Imag:
    case Opcode::Negate:
    case Opcode::Real:
    case Opcode::Subtract:
      return false;
    default:
      return true;
  }
}

/// Instructions of an element of f32 in code for sm_90a, both sides of branches, and of f64.
std::optional<double> operations_of_long_function(const Instruction& it) {
  const bool is_f64 = it.shape.is_array() && bit_width(it.shape.type) > 32;
  const auto of = [&](double f32, double f64) { return std::optional(is_f64 ? f64 : f32); };
  switch (it.opcode) {
    case Opcode::Acos:
    case Opcode::Asin:
      return of(40, 110);
    case Opcode::Acosh:
      return of(85, 240);
    case Opcode::Asinh:
      return of(120, 275);
    case Opcode::Atan2:
      return of(100, 195);
    case Opcode::Atanh:
      return of(75, 170);
    case Opcode::Cbrt:
      return of(70, 145);
    case Opcode::Cosh:
      return of(65, 125);
    case Opcode::Expm1:
      return of(18, 35);
    case Opcode::Log1p:
      return of(29, 70);
    case Opcode::Sinh:
      return of(110, 220);
    default:
      return std::nullopt;
  }
}

}  // namespace

double element_operations(const Computation& computation, const Instruction& it) {
  constexpr double kInF64 = 60;
  if (is_complex_in_f64(computation, it)) return kInF64;
  switch (it.opcode) {
    case Opcode::Abs:
      return is_complex(computation.operand_shape(it, 0).type) ? 24 : 1;
    case Opcode::Add:
    case Opcode::And:
    case Opcode::Compare:
    case Opcode::Convert:
    case Opcode::Maximum:
    case Opcode::Minimum:
    case Opcode::Multiply:
    case Opcode::Negate:
    case Opcode::Not:
    case Opcode::Or:
    case Opcode::Select:
    case Opcode::ShiftLeft:
    case Opcode::ShiftRightArithmetic:
    case Opcode::ShiftRightLogical:
    case Opcode::Subtract:
    case Opcode::Xor:
      return 1;
    case Opcode::Broadcast:
    case Opcode::Reshape:
    case Opcode::Bitcast:
    case Opcode::Slice:
    case Opcode::GetTupleElement:
    case Opcode::Tuple:
    case Opcode::Constant:
      return 0.5;
    case Opcode::Parameter:
      return 1;
    case Opcode::Divide:
    case Opcode::Exp:
    case Opcode::Log:
    case Opcode::Sqrt:
    case Opcode::Rsqrt:
    case Opcode::Tanh:
    case Opcode::Logistic:
    case Opcode::Erf:
      return bit_width(it.shape.is_array() ? it.shape.type : ElementType::F32) > 32 ? 60 : 12;
    case Opcode::Sine:
    case Opcode::Cosine:
    case Opcode::Tan:
      return 40;
    case Opcode::Power:
      return 100;
    case Opcode::Remainder:
      return bit_width(it.shape.is_array() ? it.shape.type : ElementType::F32) > 32 ? 70 : 30;
    default:
      return operations_of_long_function(it).value_or(3);
  }
}

std::set<InstructionId> values_before(const Computation& computation, InstructionId value) {
  constexpr size_t kMost = 256;
  std::set<InstructionId> seen{value};
  if (!computation[value].shape.is_array()) return seen;
  const int64_t elements = computation[value].shape.element_count();
  std::vector<InstructionId> stack{value};
  while (!stack.empty()) {
    const Instruction& it = computation[stack.back()];
    stack.pop_back();
    if (!is_elementwise(it.opcode) && it.opcode != Opcode::Reshape) continue;
    for (const InstructionId operand : it.operands) {
      const Shape& read = computation[operand].shape;
      const bool follows = read.is_array() && read.element_count() == elements && seen.size() < kMost;
      if (follows && seen.insert(operand).second) stack.push_back(operand);
    }
  }
  return seen;
}

double operations_before(const Computation& computation, InstructionId value) {
  double sum = 0;
  for (const InstructionId id : values_before(computation, value)) {
    const Instruction& it = computation[id];
    const bool computed = is_elementwise(it.opcode) || it.opcode == Opcode::Reshape || it.opcode == Opcode::Broadcast ||
                          it.opcode == Opcode::Iota;
    sum += computed ? element_operations(computation, it) : 1;
  }
  return sum;
}

}  // namespace strata::hlo
