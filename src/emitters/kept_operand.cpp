#include "emitters/kept_operand.h"

#include <algorithm>
#include <limits>

#include "emitters/fusion/array_uses.h"

namespace strata::emitters {

using hlo::Opcode;

namespace {

std::vector<hlo::InstructionId> results_of(const hlo::Computation& from) {
  const hlo::Instruction& root = from.root_instruction();
  return root.opcode == Opcode::Tuple ? root.operands : std::vector{from.root};
}

bool is_slice_update(const hlo::Computation& from, hlo::InstructionId id) {
  return from[id].opcode == Opcode::DynamicUpdateSlice;
}

/// The number of the input that an update changes and that is read for nothing else.
std::optional<size_t> updated_input(const hlo::Computation& from, const hlo::Instruction& update) {
  const hlo::InstructionId updated = update.operands[0];
  if (from[updated].opcode != Opcode::Parameter || !from[updated].shape.is_array()) return std::nullopt;
  int64_t uses = 0;
  for (const hlo::Instruction& user : from.instructions) uses += std::ranges::count(user.operands, updated);
  if (uses > 1) return std::nullopt;
  return static_cast<size_t>(from[updated].as<hlo::ParameterAttributes>().number);
}

/// As emit_fusion. What the fusion pass has joined because an update is in place has no other emitter.
Result<EmittedFusion> emit_joined(const hlo::Module& module, const std::string& name, const EmitOptions& options) {
  Result<EmittedFusion> fusion = emit_fusion(module, module.entry, name, options);
  const hlo::Computation& from = module.entry_computation();
  const bool updates = std::ranges::any_of(results_of(from), [&](auto id) { return is_slice_update(from, id); });
  if (fusion || fusion.error().code != ErrorCode::Unsupported || !updates || options.overwrites) return fusion;
  EmitOptions in_place = options;
  in_place.overwrites = true;
  Result<EmittedFusion> other = emit_fusion(module, module.entry, name, in_place);
  return other || other.error().code != ErrorCode::Unsupported ? other : fusion;
}

Result<EmittedFusion> emit_keeping(const hlo::Module& module, const std::string& name, const EmitOptions& options) {
  Result<EmittedFusion> best = emit_joined(module, name, options);
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

}  // namespace

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

Updated updated_arrays(const ProgramPart& part, const std::function<bool(size_t)>& stays) {
  const hlo::Computation& from = part.module.entry_computation();
  const std::vector<hlo::InstructionId> results = results_of(from);
  size_t kept = 0, overwritten = 0;
  for (const hlo::InstructionId id : results) {
    const bool is_scatter = from[id].opcode == Opcode::Scatter && results.size() == 1;
    if (!is_scatter && !is_slice_update(from, id)) continue;
    const std::optional<size_t> input = updated_input(from, from[id]);
    if (!input) return Updated::Unknown;
    (stays(*input) ? kept : overwritten) += 1;
  }
  if (kept == results.size()) return Updated::Kept;
  const bool over = kept == 0 && overwritten > 0 && from[results[0]].opcode != Opcode::Scatter;
  return over ? Updated::Overwritten : Updated::Unknown;
}

Result<EmittedFusion> emit_updating(const hlo::Module& module, const std::string& name, const EmitOptions& options,
                                    Updated updated) {
  if (!options.only.empty()) return emit_fusion(module, module.entry, name, options);
  if (updated == Updated::Kept) return emit_keeping(module, name, options);
  EmitOptions with = options;
  with.overwrites = updated == Updated::Overwritten;
  return emit_joined(module, name, with);
}

}  // namespace strata::emitters
