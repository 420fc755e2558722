#include "emitters/kinds/reduction_staging.h"

#include <algorithm>

namespace strata::emitters {

using hlo::InstructionId;

StagedModule with_copies(const hlo::Module& module, hlo::ComputationId id,
                         const std::vector<InstructionId>& parameters) {
  auto changed = std::make_shared<hlo::Module>(module);
  hlo::Computation& computation = changed->computations[static_cast<size_t>(id)];
  const std::vector<hlo::Instruction> before = std::move(computation.instructions);
  computation.instructions = {};
  std::vector<InstructionId> moved(before.size()), used(before.size());  // instructions, and what their users read
  StagedModule result;
  result.copies.resize(parameters.size());
  for (size_t i = 0; i < before.size(); ++i) {
    hlo::Instruction it = before[i];
    for (InstructionId& operand : it.operands) operand = used[static_cast<size_t>(operand)];
    moved[i] = used[i] = static_cast<InstructionId>(computation.instructions.size());
    computation.instructions.push_back(it);
    const auto place = std::find(parameters.begin(), parameters.end(), static_cast<InstructionId>(i));
    if (place == parameters.end()) continue;
    used[i] = static_cast<InstructionId>(computation.instructions.size());
    result.copies[static_cast<size_t>(place - parameters.begin())] = used[i];
    hlo::Instruction copy;
    copy.name = it.name + ".kept";
    copy.opcode = hlo::Opcode::Copy;
    copy.shape = it.shape;
    copy.operands = {moved[i]};
    copy.location = it.location;
    computation.instructions.push_back(std::move(copy));
  }
  for (InstructionId& parameter : computation.parameters) parameter = moved[static_cast<size_t>(parameter)];
  computation.root = used[static_cast<size_t>(computation.root)];
  result.module = std::move(changed);
  return result;
}

std::vector<InstructionId> staged_parameters(const hlo::Computation& computation, const ReductionHeroes& heroes) {
  const hlo::Shape& read = computation.operand_shape(computation[heroes.heroes[0].id], 0);
  std::vector<InstructionId> parameters;
  for (const InstructionId id : computation.parameters) {
    const hlo::Shape& shape = computation[id].shape;
    if (shape.is_array() && shape.dims == read.dims && shape.minor_to_major == read.minor_to_major)
      parameters.push_back(id);
  }
  return parameters;
}

}  // namespace strata::emitters
