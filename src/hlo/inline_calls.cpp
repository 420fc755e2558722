#include "hlo/inline_calls.h"

#include <unordered_set>

namespace strata::hlo {
namespace {

bool is_call(Opcode opcode) { return opcode == Opcode::Call || opcode == Opcode::Fusion; }

/// Copies computations into a new module, callees first.
class Inliner {
 public:
  explicit Inliner(const Module& from, bool inlines) : from_(from), inlines_(inlines) {
    known_.assign(from.computations.size(), -1);
  }

  Module run(const Computation& entry) {
    result_.name = from_.name;
    result_.fusion = from_.fusion;
    result_.computations.push_back(copy_of(entry));
    result_.entry = static_cast<ComputationId>(result_.computations.size()) - 1;
    return std::move(result_);
  }

 private:
  ComputationId copy(ComputationId id) {
    if (known_[static_cast<size_t>(id)] >= 0) return known_[static_cast<size_t>(id)];
    result_.computations.push_back(copy_of(from_[id]));
    return known_[static_cast<size_t>(id)] = static_cast<ComputationId>(result_.computations.size()) - 1;
  }

  Computation copy_of(const Computation& source) {
    Computation target;
    target.name = source.name;
    std::unordered_set<std::string> names;
    target.root = append(target, names, source, nullptr);
    for (const InstructionId i : source.parameters) {
      const std::string& name = source[i].name;
      for (size_t k = 0; k < target.instructions.size(); ++k) {
        if (target.instructions[k].opcode == Opcode::Parameter && target.instructions[k].name == name) {
          target.parameters.push_back(static_cast<InstructionId>(k));
        }
      }
    }
    remove_unused(target);
    return target;
  }

  /// Appends the instructions of `source`; its parameters are `arguments`, or parameters if there are none. The root's
  /// new number.
  InstructionId append(Computation& target, std::unordered_set<std::string>& names, const Computation& source,
                       const std::vector<InstructionId>* arguments) {
    std::vector<InstructionId> moved(source.instructions.size(), -1);
    for (size_t i = 0; i < source.instructions.size(); ++i) {
      const Instruction& it = source.instructions[i];
      if (it.opcode == Opcode::Parameter && arguments != nullptr) {
        moved[i] = (*arguments)[static_cast<size_t>(it.as<ParameterAttributes>().number)];
        continue;
      }
      std::vector<InstructionId> operands;
      for (const InstructionId operand : it.operands) operands.push_back(moved[static_cast<size_t>(operand)]);
      if (inlines_ && is_call(it.opcode)) {
        moved[i] = append(target, names, from_[it.called[0]], &operands);
        continue;
      }
      if (inlines_ && it.opcode == Opcode::GetTupleElement && target[operands[0]].opcode == Opcode::Tuple) {
        moved[i] = target[operands[0]].operands[static_cast<size_t>(it.as<TupleIndexAttributes>().index)];
        continue;
      }
      Instruction copied = it;
      copied.operands = std::move(operands);
      for (ComputationId& called : copied.called) called = copy(called);
      for (int n = 1; !names.insert(copied.name).second; ++n) copied.name = it.name + "." + std::to_string(n);
      moved[i] = static_cast<InstructionId>(target.instructions.size());
      target.instructions.push_back(std::move(copied));
    }
    return moved[static_cast<size_t>(source.root)];
  }

  static void remove_unused(Computation& computation) {
    const size_t count = computation.instructions.size();
    std::vector<bool> used(count, false);
    used[static_cast<size_t>(computation.root)] = true;
    for (const InstructionId id : computation.parameters) used[static_cast<size_t>(id)] = true;
    for (size_t i = count; i-- > 0;) {
      if (!used[i]) continue;
      for (const InstructionId operand : computation.instructions[i].operands)
        used[static_cast<size_t>(operand)] = true;
    }
    std::vector<InstructionId> moved(count, -1);
    std::vector<Instruction> kept;
    for (size_t i = 0; i < count; ++i) {
      if (!used[i]) continue;
      moved[i] = static_cast<InstructionId>(kept.size());
      kept.push_back(std::move(computation.instructions[i]));
      for (InstructionId& operand : kept.back().operands) operand = moved[static_cast<size_t>(operand)];
    }
    computation.instructions = std::move(kept);
    computation.root = moved[static_cast<size_t>(computation.root)];
    for (InstructionId& id : computation.parameters) id = moved[static_cast<size_t>(id)];
  }

  const Module& from_;
  const bool inlines_;
  Module result_;
  std::vector<ComputationId> known_;
};

}  // namespace

Module inline_calls(const Module& module) { return Inliner(module, true).run(module.entry_computation()); }

Module extract_module(const Module& module, const Computation& entry) { return Inliner(module, false).run(entry); }

}  // namespace strata::hlo
