#include "hlo/carry_conditions.h"

#include <fmt/format.h>

#include <algorithm>

#include "hlo/counted_loop.h"
#include "hlo/inline_calls.h"
#include "hlo/replace_instructions.h"
#include "hlo/source_of.h"
#include "hlo/text.h"

namespace strata::hlo {
namespace {

/// `it` is an instruction of `computation`, in a module without calls.
bool is_replaced(const Module& module, const Computation& computation, const Instruction& it,
                 const LeavesLoop& leaves) {
  if (it.opcode != Opcode::While) return false;
  const Computation& condition = module[it.called[0]];
  const Opcode decides = condition[source_of(condition, condition.root, 0).first].opcode;
  if (decides == Opcode::Parameter || decides == Opcode::Constant) return false;
  if (counted_loop(module, computation, static_cast<InstructionId>(&it - computation.instructions.data())))
    return false;
  return !leaves || !leaves(module, it);
}

bool has_any(const Module& flat, const LeavesLoop& leaves) {
  return std::any_of(flat.computations.begin(), flat.computations.end(), [&](const Computation& computation) {
    return std::any_of(computation.instructions.begin(), computation.instructions.end(),
                       [&](const Instruction& it) { return is_replaced(flat, computation, it, leaves); });
  });
}

Replacement replacement(const Instruction& it) {
  const std::string state = to_string(it.shape);
  return {fmt::format(R"(condition {{
  p = {0} parameter(0)
  ROOT r = pred[] custom-call(p), custom_call_target="condition"
}}
body {{
  p = {0} parameter(0)
  ROOT r = {0} custom-call(p), custom_call_target="body"
}}
carried {{
  s = ({0}, pred[]) parameter(0)
  ROOT r = pred[] get-tuple-element(s), index=1
}}
next {{
  s = ({0}, pred[]) parameter(0)
  x = {0} get-tuple-element(s), index=0
  y = {0} call(x), to_apply=body
  goes_on = pred[] call(y), to_apply=condition
  ROOT r = ({0}, pred[]) tuple(y, goes_on)
}}
ENTRY loop {{
  x = {0} parameter(0)
  begins = pred[] call(x), to_apply=condition
  s = ({0}, pred[]) tuple(x, begins)
  w = ({0}, pred[]) while(s), condition=carried, body=next
  ROOT r = {0} get-tuple-element(w), index=0
}}
)",
                      state),
          it.operands,
          {{"condition", it.called[0]}, {"body", it.called[1]}}};
}

}  // namespace

bool has_computed_conditions(const Module& module, const LeavesLoop& leaves) {
  const bool loops = std::any_of(module.computations.begin(), module.computations.end(), [](const Computation& one) {
    return std::any_of(one.instructions.begin(), one.instructions.end(),
                       [](const Instruction& it) { return it.opcode == Opcode::While; });
  });
  return loops && has_any(inline_calls(module), leaves);
}

Result<Module> carry_conditions(const Module& module, const LeavesLoop& leaves) {
  const Module flat = inline_calls(module);
  return replace_instructions(flat,
                              [&](const Computation& computation, const Instruction& it) -> std::optional<Replacement> {
                                if (!is_replaced(flat, computation, it, leaves)) return std::nullopt;
                                return replacement(it);
                              });
}

}  // namespace strata::hlo
