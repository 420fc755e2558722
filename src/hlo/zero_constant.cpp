#include "hlo/zero_constant.h"

namespace strata::hlo {

bool is_zero_constant(const Computation& computation, InstructionId id) {
  const Instruction& it = computation[id];
  if (it.opcode != Opcode::Constant || it.as<ConstantAttributes>().elided) return false;
  const Literal& value = it.as<ConstantAttributes>().value;
  return identical(value, Literal(value.shape()));
}

}  // namespace strata::hlo
