#include "hlo/replace_instructions.h"

#include <fmt/format.h>

#include "hlo/text.h"

namespace strata::hlo {
namespace {

/// Appends the computations of `part` but those that stand for others of the module (`known`: by name, their numbers in
/// it); the number of its entry.
ComputationId append(Module& module, const Module& part, const std::map<std::string, ComputationId>& known) {
  std::vector<ComputationId> numbers;
  for (const Computation& computation : part.computations) {
    if (const auto stands_for = known.find(computation.name); stands_for != known.end()) {
      numbers.push_back(stands_for->second);
      continue;
    }
    numbers.push_back(static_cast<ComputationId>(module.computations.size()));
    module.computations.push_back(computation);
    Computation& added = module.computations.back();
    added.name += fmt::format(".expanded.{}", module.computations.size());
    for (Instruction& instruction : added.instructions) {
      for (ComputationId& called : instruction.called) called = numbers[static_cast<size_t>(called)];
    }
  }
  return numbers[static_cast<size_t>(part.entry)];
}

}  // namespace

Result<Module> replace_instructions(const Module& module, const Replace& replace) {
  Module result;
  result.name = module.name;
  result.fusion = module.fusion;
  std::vector<ComputationId> moved;
  for (const Computation& source : module.computations) {
    Computation computation = source;
    for (size_t i = 0; i < computation.instructions.size(); ++i) {
      Instruction& it = computation.instructions[i];
      for (ComputationId& called : it.called) called = moved[static_cast<size_t>(called)];
      std::optional<Replacement> replacement = replace(source, source.instructions[i]);
      if (!replacement) continue;
      STRATA_TRY(const ModulePtr part, parse_module(replacement->text));
      for (auto& [name, stands_for] : replacement->stand_ins) stands_for = moved[static_cast<size_t>(stands_for)];
      it.called = {append(result, *part, replacement->stand_ins)};
      it.operands = std::move(replacement->operands);
      it.opcode = Opcode::Call;
      it.attributes = NoAttributes{};
    }
    moved.push_back(static_cast<ComputationId>(result.computations.size()));
    result.computations.push_back(std::move(computation));
  }
  result.entry = moved[static_cast<size_t>(module.entry)];
  return result;
}

}  // namespace strata::hlo
