#include "emitters/loop_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "emitters/program_image.h"
#include "hlo/inline_calls.h"
#include "hlo/loop_rows.h"
#include "hlo/source_of.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using hlo::Opcode;

/// The leaf of the state that a condition returns, if it computes nothing.
std::optional<int64_t> leaf_asked_for(const hlo::Computation& condition) {
  const auto [source, leaf] = hlo::source_of(condition, condition.root, 0);
  return condition[source].opcode == Opcode::Parameter ? std::optional<int64_t>(leaf) : std::nullopt;
}

/// Whether a body says that the loop does not go on.
bool ends_after(const hlo::Computation& body, int64_t asked_for) {
  const auto [source, leaf] = hlo::source_of(body, body.root, asked_for);
  const hlo::Instruction& it = body[source];
  return it.opcode == Opcode::Constant && it.shape.is_array() &&
         it.as<hlo::ConstantAttributes>().value.get_integer(leaf) == 0;
}

/// By leaf of a state that is a tuple of arrays: whether the result, the condition or what these need in the next
/// iteration is computed of it. All are, where the body or the condition read tuples as a whole.
std::vector<bool> leaves_in_use(const ProgramPart& part, const hlo::Instruction& loop) {
  const hlo::Computation& condition = part.module[loop.called[0]];
  const hlo::Computation& body = part.module[loop.called[1]];
  const auto leaves = static_cast<size_t>(hlo::leaf_count(loop.shape));
  std::vector<bool> used(leaves, true);
  if (!loop.shape.is_tuple() || loop.shape.elements.size() != leaves || body.root_instruction().opcode != Opcode::Tuple)
    return used;
  // The leaves that an instruction is computed of.
  const auto mark = [&](const hlo::Computation& computation, InstructionId from) {
    std::vector<bool> seen(computation.instructions.size(), false);
    std::vector<InstructionId> open{from};
    while (!open.empty()) {
      const InstructionId id = open.back();
      open.pop_back();
      if (seen[static_cast<size_t>(id)]) continue;
      seen[static_cast<size_t>(id)] = true;
      const hlo::Instruction& it = computation[id];
      if (it.opcode == Opcode::Parameter) used.assign(leaves, true);
      if (it.opcode == Opcode::GetTupleElement && it.operands[0] == computation.parameters[0])
        used[static_cast<size_t>(it.as<hlo::TupleIndexAttributes>().index)] = true;
      else
        open.insert(open.end(), it.operands.begin(), it.operands.end());
    }
  };
  used.assign(leaves, false);
  for (const ArrayValue& value : part.outputs) used[static_cast<size_t>(value.element)] = true;
  mark(condition, condition.root);
  std::vector<bool> followed(leaves, false);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t leaf = 0; leaf < leaves; ++leaf) {
      if (!used[leaf] || followed[leaf]) continue;
      followed[leaf] = changed = true;
      mark(body, body.root_instruction().operands[leaf]);
    }
  }
  return used;
}

/// By step: whether it is taken out of the body.
std::vector<bool> taken_steps(const EmittedProgram& body, const std::vector<bool>& invariant) {
  const std::vector<int> over = written_over(body);
  std::set<int> stay(over.begin(), over.end());
  stay.insert(body.results.begin(), body.results.end());
  std::vector<bool> taken = invariant;
  for (size_t i = 0; i < taken.size(); ++i) {
    for (const int output : body.steps[i].outputs) taken[i] = taken[i] && !stay.contains(output);
  }
  for (bool changed = true; changed;) {
    changed = false;
    std::set<int> made;
    std::set<std::string> kernels;
    for (size_t i = 0; i < taken.size(); ++i) {
      const ProgramStep& step = body.steps[i];
      if (taken[i]) continue;
      made.insert(step.outputs.begin(), step.outputs.end());
      if (step.fusion) kernels.insert(step.fusion->module_name());
    }
    for (size_t i = 0; i < taken.size(); ++i) {
      const ProgramStep& step = body.steps[i];
      const bool waits = std::ranges::any_of(step.inputs, [&](int input) { return made.contains(input); });
      if (!taken[i] || (!waits && !(step.fusion && kernels.contains(step.fusion->module_name())))) continue;
      taken[i] = false;
      changed = true;
    }
  }
  return taken;
}

/// Moves steps of a body to the program around the loop.
class Mover {
 public:
  Mover(LoopStep& loop, EmittedProgram& body, EmittedProgram& around) : loop_(loop), body_(body), around_(around) {}

  ProgramStep moved(ProgramStep step) {
    for (std::vector<int>* list : {&step.inputs, &step.outputs}) move(*list);
    step.temporaries.clear();
    if (step.library) move(step.library->arguments);
    if (step.loop) {
      LoopStep inner = *step.loop;
      for (LoopStep::Leaf& leaf : inner.leaves) {
        leaf.initial = moved(leaf.initial);
        if (leaf.result >= 0) leaf.result = moved(leaf.result);
      }
      step.loop = std::make_shared<const LoopStep>(std::move(inner));
    }
    return step;
  }

  /// Makes a buffer that a moved step writes a leaf of the state.
  void carry(int buffer) {
    const auto leaf = static_cast<int>(loop_.leaves.size());
    loop_.leaves.push_back({moved(buffer), -1, false});
    ProgramBuffer& it = body_.buffers[static_cast<size_t>(buffer)];
    for (hlo::Shape* shape : {&loop_.state, &body_.result_shape}) {
      std::vector<hlo::Shape> elements(shape->elements.begin(), shape->elements.end());
      elements.push_back(it.shape);
      *shape = hlo::tuple_shape(std::move(elements));
    }
    it.parameter = 0;
    it.element = leaf;
    it.name = fmt::format("invariant.{}", leaf);
    body_.results.push_back(buffer);
  }

 private:
  int moved(int buffer) {
    const ProgramBuffer& it = body_.buffers[static_cast<size_t>(buffer)];
    if (it.parameter >= 0) return loop_.leaves[static_cast<size_t>(std::max(it.element, 0))].initial;
    const auto [at, is_new] = numbers_.try_emplace(buffer, static_cast<int>(around_.buffers.size()));
    if (is_new) around_.buffers.push_back(it);
    return at->second;
  }

  void move(std::vector<int>& buffers) {
    for (int& buffer : buffers) buffer = moved(buffer);
  }

  LoopStep& loop_;
  EmittedProgram& body_;
  EmittedProgram& around_;
  std::map<int, int> numbers_;  ///< of the body's buffers around the loop
};

}  // namespace

std::optional<InstructionId> loop_of(const ProgramPart& part) {
  const hlo::Computation& from = part.module.entry_computation();
  std::optional<InstructionId> loop;
  for (InstructionId id = 0; id <= from.root; ++id) {
    if (from[id].opcode == Opcode::While) loop = id;
  }
  return loop;
}

hlo::Module body_of(const ProgramPart& part, const hlo::Instruction& loop, LoopStep& step) {
  const hlo::Module& module = part.module;
  hlo::Computation body = module[loop.called[1]];
  const auto leave = [&](int64_t left) {
    if (!loop.shape.is_tuple() || body.root_instruction().opcode != Opcode::Tuple) return false;
    const size_t element = hlo::element_with_leaf(loop.shape, left);
    if (!loop.shape.elements[element].is_array()) return false;
    hlo::Instruction root = body.root_instruction();
    root.operands[element] = static_cast<InstructionId>(body.instructions.size());
    body.instructions.push_back({"left." + std::to_string(left),
                                 Opcode::GetTupleElement,
                                 loop.shape.elements[element],
                                 {body.parameters[0]},
                                 {},
                                 hlo::TupleIndexAttributes{static_cast<int64_t>(element)},
                                 {}});
    body.root = static_cast<InstructionId>(body.instructions.size());
    body.instructions.push_back(std::move(root));
    return true;
  };
  const std::vector<bool> used = leaves_in_use(part, loop);
  for (size_t leaf = 0; leaf < used.size(); ++leaf) {
    if (!used[leaf]) leave(static_cast<int64_t>(leaf));
  }
  if (step.counted) {
    std::erase_if(step.counted->counters,
                  [&](const hlo::CountedLoop::Counter& counter) { return !leave(counter.leaf); });
  } else if (const auto asked_for = leaf_asked_for(module[loop.called[0]])) {
    const bool is_read = std::any_of(part.outputs.begin(), part.outputs.end(),
                                     [&](const ArrayValue& value) { return value.element == *asked_for; });
    step.once = !is_read && ends_after(body, *asked_for) && leave(*asked_for);
  }
  return hlo::extract_module(module, body);
}

std::vector<bool> overwritten_leaves(const ProgramPart& part, InstructionId loop, const LoopStep& step) {
  const hlo::Computation& from = part.module.entry_computation();
  std::vector<bool> overwritten(static_cast<size_t>(hlo::leaf_count(from[loop].shape)), false);
  const auto rows = step.counted ? hlo::LoopRows::of(part.module, from, loop) : std::nullopt;
  if (!rows) return overwritten;
  for (size_t leaf = 0; leaf < overwritten.size(); ++leaf) {
    const auto number = static_cast<int64_t>(leaf);
    const InstructionId first = hlo::source_of(from, from[loop].operands[0], number).first;
    overwritten[leaf] = from[first].opcode != Opcode::Parameter && rows->fills(number);
  }
  return overwritten;
}

bool repeats(const LoopStep& loop) {
  return loop.state.is_tuple() && !loop.once && (!loop.counted || loop.counted->count > 1);
}

std::vector<ProgramStep> take_invariant_steps(LoopStep& loop, EmittedProgram& body, const std::vector<bool>& invariant,
                                              EmittedProgram& around) {
  const std::vector<bool> taken = taken_steps(body, invariant);
  std::vector<ProgramStep> kept, moved;
  std::set<int> made, read(body.results.begin(), body.results.end());
  Mover mover(loop, body, around);
  for (size_t i = 0; i < taken.size(); ++i) {
    ProgramStep& step = body.steps[i];
    if (taken[i]) {
      made.insert(step.outputs.begin(), step.outputs.end());
      moved.push_back(mover.moved(std::move(step)));
    } else {
      read.insert(step.inputs.begin(), step.inputs.end());
      kept.push_back(std::move(step));
    }
  }
  body.steps = std::move(kept);
  for (const int buffer : made) {
    if (read.contains(buffer)) mover.carry(buffer);
  }
  return moved;
}

}  // namespace strata::emitters
