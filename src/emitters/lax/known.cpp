#include "emitters/lax/known.h"

#include <algorithm>

namespace strata::emitters {
namespace {

using hlo::ElementType;
using hlo::Instruction;
using hlo::Opcode;

/// Integers that hold what programs count to, and truth values.
bool is_counting(ElementType type) {
  return type == ElementType::S32 || type == ElementType::S64 || type == ElementType::Pred;
}

bool moves(Opcode opcode) {
  return opcode == Opcode::Broadcast || opcode == Opcode::Reshape || opcode == Opcode::Copy ||
         opcode == Opcode::Convert || opcode == Opcode::Transpose;
}

bool computes(Opcode opcode) {
  switch (opcode) {
    case Opcode::Add:
    case Opcode::And:
    case Opcode::Compare:
    case Opcode::Multiply:
    case Opcode::Negate:
    case Opcode::Not:
    case Opcode::Or:
    case Opcode::Select:
    case Opcode::Subtract:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::vector<Known> known_instructions(const hlo::Computation& computation) {
  std::vector<Known> known;
  for (const Instruction& it : computation.instructions) {
    const auto of = [&](hlo::InstructionId id) { return known[static_cast<size_t>(id)]; };
    const auto all = [&](const auto& is) { return std::all_of(it.operands.begin(), it.operands.end(), is); };
    Known here = Known::No;
    if (!it.shape.is_array()) {
      here = Known::No;
    } else if (it.opcode == Opcode::Constant) {
      here = it.shape.element_count() == 1 ? Known::Splat : Known::No;
    } else if (moves(it.opcode) && of(it.operands[0]) == Known::Splat) {
      here = Known::Splat;
    } else if (it.opcode == Opcode::Iota) {
      here = is_counting(it.shape.type) ? Known::Counts : Known::No;
    } else if (is_counting(it.shape.type) && (moves(it.opcode) || computes(it.opcode))) {
      const bool counts = all([&](auto id) { return of(id) != Known::No && is_counting(computation[id].shape.type); });
      here = counts ? Known::Counts : Known::No;
    }
    known.push_back(here);
  }
  return known;
}

}  // namespace strata::emitters
