#include "emitters/library/scratch.h"

namespace strata::emitters {

hlo::InstructionId Scratch::add(hlo::Opcode opcode, hlo::Shape shape, std::vector<hlo::InstructionId> operands,
                                hlo::Attributes attributes) {
  computation_.instructions.push_back(
      {"scratch", opcode, std::move(shape), std::move(operands), {}, std::move(attributes), {}});
  users_.emplace_back();
  return static_cast<hlo::InstructionId>(computation_.instructions.size()) - 1;
}

Scratch::Trial::~Trial() {
  scratch_.computation_.instructions.resize(before_);
  scratch_.users_.resize(before_);
}

}  // namespace strata::emitters
