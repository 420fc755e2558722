#include "emitters/fusion/instruction_roles.h"

#include "emitters/kinds/product/product.h"

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

bool is_name(Opcode opcode) {
  return opcode == Opcode::Tuple || opcode == Opcode::GetTupleElement || opcode == Opcode::AfterAll;
}

}  // namespace strata::emitters
