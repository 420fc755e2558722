// A reshape that moves nothing: its result is the operand's array under another shape. A copy where somebody reads the
// operand later, else nothing at all (written_over.cpp).
#include "emitters/kinds/in_place.h"
#include "emitters/kinds/kernel.h"
#include "emitters/kinds/plan.h"
#include "indexing/memory_access.h"

namespace strata::emitters {

Result<Plan> plan_reshape(const Fusion& fusion) {
  const hlo::Computation& computation = fusion.computation();
  const hlo::Instruction& root = computation.root_instruction();
  if (root.opcode != hlo::Opcode::Reshape) return unsupported("the root is no reshape");
  const hlo::Instruction& from = computation[root.operands[0]];
  if (from.opcode != hlo::Opcode::Parameter) return unsupported("{} is computed here", from.name);
  if (!root.shape.has_default_layout() || !from.shape.has_default_layout()) {
    return unsupported("{} may lie in another order than {}", root.name, from.name);
  }
  Plan plan;
  STRATA_TRY(const Preparation preparation, preparation_in_place(computation, root.operands[0], from.shape));
  plan.decision.emitter = "reshape";
  plan.decision.reason = "the elements lie as those of the operand do";
  plan.decision.launch().threads = indexing::kWarpSize;
  plan.decision.preparations = {preparation};
  plan.decision.microseconds = 0;
  plan.emit = [fusion, decision = plan.decision](mlir::ModuleOp target, const std::string& name) -> Result<void> {
    STRATA_TRY(const FusionFunctions functions, FusionFunctions::create(target, fusion.module, fusion.id));
    Kernel kernel(functions, name, decision);
    kernel.finish(kernel.outputs());
    return {};
  };
  return plan;
}

Result<Plan> plan_reshape_unasked(const Fusion& /*fusion*/) {
  return unsupported("only where nothing else reads the operand, which the whole program knows");
}

}  // namespace strata::emitters
