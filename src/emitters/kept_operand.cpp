#include "emitters/kept_operand.h"

#include <algorithm>
#include <limits>

namespace strata::emitters {

using hlo::Opcode;

std::map<ArrayValue, size_t> last_reads(const hlo::Module& module, const std::vector<ProgramPart>& parts) {
  std::map<ArrayValue, size_t> last;
  for (size_t i = 0; i < parts.size(); ++i) {
    for (const ArrayValue& value : parts[i].inputs) last[value] = i;
  }
  const hlo::Computation& entry = module.entry_computation();
  const int64_t leaves = hlo::leaf_count(entry.root_instruction().shape);
  for (int leaf = 0; leaf < leaves; ++leaf) {
    if (const std::optional<ArrayValue> value = resolve(entry, entry.root, leaf)) last[*value] = parts.size();
  }
  return last;
}

std::vector<size_t> updated_inputs(const ProgramPart& part) {
  const hlo::Computation& from = part.module.entry_computation();
  const hlo::Instruction& root = from.root_instruction();
  std::vector<hlo::InstructionId> updates{from.root};
  if (root.opcode == Opcode::Tuple) updates = root.operands;
  std::vector<size_t> inputs;
  for (const hlo::InstructionId id : updates) {
    const hlo::Instruction& it = from[id];
    const bool is_update = it.opcode == Opcode::DynamicUpdateSlice || (it.opcode == Opcode::Scatter && id == from.root);
    if (!is_update) return {};
    const hlo::InstructionId updated = it.operands[0];
    if (from[updated].opcode != Opcode::Parameter || !from[updated].shape.is_array()) return {};
    int64_t uses = 0;
    for (const hlo::Instruction& user : from.instructions) uses += std::ranges::count(user.operands, updated);
    if (uses > 1) return {};
    inputs.push_back(static_cast<size_t>(from[updated].as<hlo::ParameterAttributes>().number));
  }
  return inputs;
}

Result<EmittedFusion> emit_keeping(const hlo::Module& module, const std::string& name, const EmitOptions& options) {
  Result<EmittedFusion> best = emit_fusion(module, module.entry, name, options);
  if (!best) return best;
  const bool is_scatter = module.entry_computation().root_instruction().opcode == Opcode::Scatter;
  const auto time = [](const EmittedFusion& fusion) {
    return fusion.decision().microseconds.value_or(std::numeric_limits<double>::infinity());
  };
  // A loop over the result moves as much as the copy alone that a dynamic-update-slice in place begins with.
  const std::vector<const char*> others =
      is_scatter ? std::vector{"scatter windows", "scatter scan"} : std::vector{"loop"};
  for (const char* only : others) {
    if (best->decision().preparations.empty()) break;
    EmitOptions asked = options;
    asked.only = only;
    Result<EmittedFusion> other = emit_fusion(module, module.entry, name, asked);
    if (!other && other.error().code != ErrorCode::Unsupported) return other;
    if (other && (!is_scatter || time(*other) < time(*best))) best = std::move(other);
  }
  return best;
}

}  // namespace strata::emitters
