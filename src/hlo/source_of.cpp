#include "hlo/source_of.h"

namespace strata::hlo {

std::pair<InstructionId, int64_t> source_of(const Computation& computation, InstructionId id, int64_t leaf) {
  while (true) {
    const Instruction& it = computation[id];
    if (it.opcode == Opcode::GetTupleElement) {
      const auto index = static_cast<size_t>(it.as<TupleIndexAttributes>().index);
      leaf += computation.operand_shape(it, 0).elements.first_leaf(index);
      id = it.operands[0];
    } else if (it.opcode == Opcode::Tuple && leaf < leaf_count(it.shape)) {
      const size_t element = element_with_leaf(it.shape, leaf);
      leaf -= it.shape.elements.first_leaf(element);
      id = it.operands[element];
    } else {
      return {id, leaf};
    }
  }
}

}  // namespace strata::hlo
