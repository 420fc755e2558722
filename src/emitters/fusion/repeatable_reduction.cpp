#include "emitters/fusion/repeatable_reduction.h"

#include <cstring>
#include <vector>

#include "hlo/evaluate.h"

namespace strata::emitters {
namespace {

using hlo::Instruction;
using hlo::Opcode;

bool keeps_precision(const Instruction& root) {
  switch (root.opcode) {
    case Opcode::Maximum:
    case Opcode::Minimum:
    case Opcode::And:
    case Opcode::Or:
      return true;
    case Opcode::Add:
    case Opcode::Multiply:
      return hlo::kind(root.shape.type) != hlo::TypeKind::Float || hlo::bit_width(root.shape.type) >= 32;
    default:
      return false;
  }
}

/// Whether a value combines with itself to itself.
bool is_repeatable(const hlo::Module& module, const hlo::Computation& by, const hlo::Literal& value) {
  const std::vector<hlo::Literal> arguments{value, value};
  const auto combined = hlo::evaluate(module, by, arguments);
  return combined && combined->byte_size() == value.byte_size() &&
         std::memcmp(combined->bytes(), value.bytes(), value.byte_size()) == 0;
}

}  // namespace

bool is_repeatable_reduction(const hlo::Module& module, const hlo::Computation& computation, const Instruction& it) {
  if (it.opcode != Opcode::Reduce || it.operands.size() != 2 || !it.shape.is_array()) return false;
  const Instruction& initial = computation[it.operands[1]];
  if (initial.opcode != Opcode::Constant) return false;
  const hlo::Computation& by = module[it.called[0]];
  const Instruction& root = by.root_instruction();
  const bool of_both = by.instructions.size() == 3 && root.operands.size() == 2 &&
                       root.operands[0] != root.operands[1] && root.shape.type == it.shape.type;
  return of_both && keeps_precision(root) && is_repeatable(module, by, initial.as<hlo::ConstantAttributes>().value);
}

}  // namespace strata::emitters
