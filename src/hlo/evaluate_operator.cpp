#include "hlo/evaluate_operator.h"

#include <fmt/format.h>

#include "hlo/evaluate.h"

namespace strata::hlo {

Result<Literal> evaluate_operator(Instruction instruction, const std::vector<Literal>& operands) {
  Module alone;
  Computation& computation = alone.computations.emplace_back();
  alone.name = computation.name = "operator";
  alone.entry = 0;
  instruction.operands.clear();
  for (const Literal& operand : operands) {
    const auto number = static_cast<InstructionId>(computation.instructions.size());
    computation.instructions.push_back({fmt::format("constant.{}", number),
                                        Opcode::Constant,
                                        operand.shape(),
                                        {},
                                        {},
                                        ConstantAttributes{operand, false},
                                        {}});
    instruction.operands.push_back(number);
  }
  computation.instructions.push_back(std::move(instruction));
  computation.root = static_cast<InstructionId>(computation.instructions.size()) - 1;
  return evaluate(alone, {});
}

}  // namespace strata::hlo
