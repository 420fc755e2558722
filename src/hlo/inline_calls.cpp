#include "hlo/inline_calls.h"

#include <cassert>
#include <map>
#include <set>
#include <unordered_map>
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

  Module run(const Computation& entry) { return with_entry(copy_of(entry)); }

  /// Of an entry whose calls stay.
  Module run(Computation&& entry) {
    assert(!inlines_);
    for (Instruction& it : entry.instructions) {
      for (ComputationId& called : it.called) called = copy(called);
    }
    remove_unused(entry);
    return with_entry(std::move(entry));
  }

 private:
  Module with_entry(Computation entry) {
    result_.name = from_.name;
    result_.fusion = from_.fusion;
    result_.computations.push_back(std::move(entry));
    result_.entry = static_cast<ComputationId>(result_.computations.size()) - 1;
    return std::move(result_);
  }

  ComputationId copy(ComputationId id) {
    if (known_[static_cast<size_t>(id)] >= 0) return known_[static_cast<size_t>(id)];
    result_.computations.push_back(copy_of(from_[id]));
    return known_[static_cast<size_t>(id)] = static_cast<ComputationId>(result_.computations.size()) - 1;
  }

  Computation copy_of(const Computation& source) {
    Computation target;
    target.name = source.name;
    Names names;
    target.root = append(target, names, source, nullptr);
    remove_unused(target);
    return target;
  }

  /// Names that are taken, and how often each was asked for.
  struct Names {
    std::unordered_set<std::string> taken;
    std::unordered_map<std::string, int> asked;
  };

  static InstructionId add(Computation& target, Names& names, Instruction it) {
    const std::string base = it.name;
    for (int& n = names.asked[base]; !names.taken.insert(it.name).second;) it.name = base + "." + std::to_string(++n);
    target.instructions.push_back(std::move(it));
    return static_cast<InstructionId>(target.instructions.size()) - 1;
  }

  static InstructionId element_of(Computation& target, Names& names, InstructionId tuple, size_t i) {
    const Instruction& it = target[tuple];
    if (it.opcode == Opcode::Tuple) return it.operands[i];
    Instruction element{it.name + ".element",
                        Opcode::GetTupleElement,
                        it.shape.elements[i],
                        {tuple},
                        {},
                        TupleIndexAttributes{static_cast<int64_t>(i)},
                        it.location};
    return add(target, names, std::move(element));
  }

  /// Whether it makes a tuple element by element, and so is an instruction of each.
  static bool is_split(const Instruction& it) {
    if (!it.shape.is_tuple()) return false;
    return it.opcode == Opcode::Constant || it.opcode == Opcode::Copy || it.opcode == Opcode::OptimizationBarrier ||
           it.opcode == Opcode::AddDependency;
  }

  static InstructionId split(Computation& target, Names& names, const Instruction& it) {
    std::vector<InstructionId> elements;
    for (size_t i = 0; i < it.shape.elements.size(); ++i) {
      Instruction part = it;
      part.name = it.name + "." + std::to_string(i);
      part.shape = it.shape.elements[i];
      if (it.opcode == Opcode::Constant) {
        const auto& constant = it.as<ConstantAttributes>();
        part.attributes = ConstantAttributes{constant.value.elements()[i], constant.elided};
      } else {
        part.operands[0] = element_of(target, names, it.operands[0], i);
      }
      // A token has no copies.
      const bool token = !part.shape.is_tuple() && !part.shape.is_array();
      elements.push_back(token            ? part.operands[0]
                         : is_split(part) ? split(target, names, part)
                                          : add(target, names, std::move(part)));
    }
    return add(target, names, {it.name, Opcode::Tuple, it.shape, elements, {}, NoAttributes{}, it.location});
  }

  /// Appends the instructions of `source`; its parameters are `arguments`, or parameters if there are none. The root's
  /// new number.
  InstructionId append(Computation& target, Names& names, const Computation& source,
                       const std::vector<InstructionId>* arguments) {
    std::vector<InstructionId> moved(source.instructions.size(), -1);
    // The same call of the same values again is the same value: no computation has effects.
    std::map<std::pair<ComputationId, std::vector<InstructionId>>, InstructionId> calls;
    for (size_t i = 0; i < source.instructions.size(); ++i) {
      const Instruction& it = source.instructions[i];
      if (it.opcode == Opcode::Parameter && arguments != nullptr) {
        moved[i] = (*arguments)[static_cast<size_t>(it.as<ParameterAttributes>().number)];
        continue;
      }
      std::vector<InstructionId> operands;
      for (const InstructionId operand : it.operands) operands.push_back(moved[static_cast<size_t>(operand)]);
      if (inlines_ && is_call(it.opcode)) {
        const auto [call, fresh] = calls.try_emplace({it.called[0], operands}, -1);
        if (fresh) call->second = append(target, names, from_[it.called[0]], &operands);
        moved[i] = call->second;
        continue;
      }
      if (inlines_ && it.opcode == Opcode::GetTupleElement && target[operands[0]].opcode == Opcode::Tuple) {
        moved[i] = target[operands[0]].operands[static_cast<size_t>(it.as<TupleIndexAttributes>().index)];
        continue;
      }
      Instruction copied = it;
      copied.operands = std::move(operands);
      for (ComputationId& called : copied.called) called = copy(called);
      moved[i] = inlines_ && is_split(copied) ? split(target, names, copied) : add(target, names, std::move(copied));
    }
    if (arguments == nullptr) {
      for (const InstructionId id : source.parameters) target.parameters.push_back(moved[static_cast<size_t>(id)]);
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

Result<void> check_calls(const Module& module) {
  constexpr int64_t kMost = int64_t{1} << 20;
  // Of each computation with all that it calls; what a pass adds may stand after what calls it.
  std::vector<std::optional<int64_t>> sizes(module.computations.size());
  const std::function<Result<int64_t>(size_t)> size_of = [&](size_t id) -> Result<int64_t> {
    if (sizes[id]) return *sizes[id];
    const Computation& computation = module.computations[id];
    int64_t called_size = 0;
    std::set<std::pair<ComputationId, std::vector<InstructionId>>> calls;
    for (const Instruction& it : computation.instructions) {
      if (is_call(it.opcode) && !calls.insert({it.called[0], it.operands}).second) continue;
      for (const ComputationId called : it.called) {
        STRATA_TRY(const int64_t size, size_of(static_cast<size_t>(called)));
        called_size += size;
      }
      if (called_size > kMost) {
        return tl::unexpected(
            Error{ErrorCode::Unsupported,
                  fmt::format("'{}' calls more than 2^20 instructions with all calls written out", computation.name),
                  "call each computation less often, or in a while loop", it.location});
      }
    }
    sizes[id] = called_size + static_cast<int64_t>(computation.instructions.size());
    return *sizes[id];
  };
  for (size_t id = 0; id < sizes.size(); ++id) STRATA_CHECK(size_of(id));
  return {};
}

Module inline_calls(const Module& module) { return Inliner(module, true).run(module.entry_computation()); }

Module extract_module(const Module& module, const Computation& entry) { return Inliner(module, false).run(entry); }

Module extract_module(const Module& module, Computation&& entry) {
  return Inliner(module, false).run(std::move(entry));
}

}  // namespace strata::hlo
