#include "emitters/element_loops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "emitters/buffers.h"
#include "emitters/emit.h"
#include "emitters/fusion/array_uses.h"
#include "emitters/fusion/instruction_roles.h"
#include "emitters/fusion/part_builder.h"
#include "emitters/loop_body.h"
#include "hlo/indexing/element_loop.h"
#include "hlo/inline_calls.h"
#include "hlo/source_of.h"

namespace strata::emitters {
namespace {

using hlo::InstructionId;
using hlo::Opcode;
using indexing::ElementLoop;

constexpr int64_t kUnknownIterations = 16;

/// What is computed for results of some groups, as a module.
hlo::Module module_of(const ElementLoop& loop, std::initializer_list<ElementLoop::Group> groups) {
  hlo::Computation step = loop.step[loop.computation];
  hlo::Instruction& root = step.instructions[static_cast<size_t>(step.root)];
  std::vector<hlo::Shape> shapes;
  std::vector<InstructionId> results;
  for (size_t i = 0; i < loop.results.size(); ++i) {
    if (std::ranges::count(groups, loop.results[i]) == 0) continue;
    results.push_back(root.operands[i]);
    shapes.push_back(step[root.operands[i]].shape);
  }
  root.operands = std::move(results);
  root.shape = hlo::tuple_shape(std::move(shapes));
  return hlo::extract_module(loop.step, std::move(step));
}

/// How many loads wait for each other, the first of them for the state: at indices that are computed of it.
int64_t chained_loads(const ElementLoop& loop) {
  const hlo::Computation& step = loop.step[loop.computation];
  std::vector<int64_t> chained(step.instructions.size(), -1);  // -1: not computed of the state
  for (const ElementLoop::Leaf& leaf : loop.leaves) {
    const bool is_carried = leaf.role == ElementLoop::Role::Element || leaf.role == ElementLoop::Role::Scalar;
    if (is_carried) chained[static_cast<size_t>(leaf.state)] = 0;
  }
  int64_t most = 0;
  for (size_t i = 0; i < chained.size(); ++i) {
    const hlo::Instruction& it = step.instructions[i];
    int64_t before = chained[i];
    bool waits = false;
    for (size_t k = 0; k < it.operands.size(); ++k) {
      const int64_t of_operand = chained[static_cast<size_t>(it.operands[k])];
      before = std::max(before, of_operand);
      waits |= k > 0 && of_operand >= 0;
    }
    const bool loads = it.opcode == Opcode::Gather || it.opcode == Opcode::DynamicSlice;
    chained[i] = before + (loads && waits ? 1 : 0);
    most = std::max(most, chained[i]);
  }
  return most;
}

/// Whether iterations load anything but at indices that are computed of the state: the loads of several iterations are
/// on their way together (transforms/unroll.cpp).
bool loads_ahead(const hlo::Module& iteration) {
  const hlo::Computation& computation = iteration.entry_computation();
  return std::ranges::any_of(computation.instructions, [&](const hlo::Instruction& it) {
    return (it.opcode == Opcode::DynamicSlice || it.opcode == Opcode::Gather) &&
           computation[it.operands[0]].opcode == Opcode::Parameter;
  });
}

/// How often it runs, as far as that is known; once where its condition is a leaf that the body sets to a constant.
int64_t iterations_of(const ElementLoop& loop) {
  if (loop.counted) return loop.counted->count;
  const hlo::Computation& step = loop.step[loop.computation];
  const std::vector<InstructionId>& results = step.root_instruction().operands;
  const InstructionId condition = results[static_cast<size_t>(loop.condition)];
  const bool ends = std::ranges::any_of(loop.leaves, [&](const ElementLoop::Leaf& leaf) {
    return leaf.next >= 0 && leaf.state == condition &&
           step[results[static_cast<size_t>(leaf.next)]].opcode == Opcode::Constant;
  });
  return ends ? 1 : kUnknownIterations;
}

/// Microseconds of all iterations in registers; nothing where kernels of the body take less.
std::optional<double> price(const ElementLoop& loop, const Target& target) {
  const hlo::Module iteration = module_of(loop, {ElementLoop::Group::Next, ElementLoop::Group::Condition});
  constexpr double kIterationsTogether = 8;
  const KernelTime time = kernel_time(iteration, target);
  const auto chained = static_cast<double>(chained_loads(loop));
  const double loads = chained > 0 ? chained : loads_ahead(iteration) ? 1 / kIterationsTogether : 0;
  const double chain = time.thread + loads * target.rates.load_latency * 1e6;
  const double each = std::max({chain, time.operations, time.cache});
  // One kernel at least; how many those of a large body are, takes long to find out.
  double launches = time.launch;
  const bool is_large = iteration.entry_computation().instructions.size() > kFewInstructions;
  if (is_large) launches = std::isfinite(time.all) ? time.all : std::numeric_limits<double>::infinity();
  if (!is_large && !(each < launches)) {
    launches = 0;
    for (const ProgramPart& part : fuse(iteration, target)) launches += part.microseconds;
  }
  if (!(each < launches) || time.all > launches + time.launch) return std::nullopt;
  double bytes = 0;
  for (const InstructionId id : iteration.entry_computation().parameters)
    bytes += static_cast<double>(byte_count(iteration.entry_computation()[id].shape));
  const auto count = static_cast<double>(iterations_of(loop));
  for (const ElementLoop::Leaf& leaf : loop.leaves) {
    if (leaf.part < 0) continue;
    const hlo::Computation& step = loop.step[loop.computation];
    bytes += count * static_cast<double>(
                         byte_count(step[step.root_instruction().operands[static_cast<size_t>(leaf.part)]].shape));
  }
  double after = 0;
  if (std::ranges::count(loop.results, ElementLoop::Group::Last) > 0) {
    const KernelTime last = kernel_time(module_of(loop, {ElementLoop::Group::Last}), target);
    if (!std::isfinite(last.all)) return std::nullopt;
    after = last.all - last.launch;
  }
  return time.launch + std::max(count * each, bytes / (target.rates.memory_bandwidth / 1e6)) + after;
}

hlo::Computation with_root(hlo::Computation computation, hlo::Instruction root) {
  computation.root = static_cast<InstructionId>(computation.instructions.size());
  computation.instructions.push_back(std::move(root));
  return computation;
}

}  // namespace

bool is_element_loop(const hlo::Module& module, const hlo::Instruction& loop) {
  if (!loop.shape.is_tuple()) return false;
  // The loop alone, of a state that is given.
  hlo::Computation alone;
  alone.name = "alone";
  hlo::Instruction state, again = loop;
  state.name = "state";
  state.opcode = Opcode::Tuple;
  state.shape = loop.shape;
  for (const hlo::Shape& shape : loop.shape.elements) {
    if (!shape.is_array()) return false;
    hlo::Instruction leaf;
    const auto number = static_cast<InstructionId>(alone.parameters.size());
    leaf.name = "leaf_" + std::to_string(number);
    leaf.shape = shape;
    leaf.attributes = hlo::ParameterAttributes{number};
    alone.instructions.push_back(std::move(leaf));
    alone.parameters.push_back(number);
    state.operands.push_back(number);
  }
  const auto first = static_cast<InstructionId>(alone.instructions.size());
  again.operands = {first};
  alone.instructions.push_back(std::move(state));
  alone = with_root(std::move(alone), std::move(again));
  const hlo::Module made = hlo::extract_module(module, alone);
  return indexing::element_loop(made, made.entry, made.entry_computation().root).has_value();
}

Result<ElementLoopPart> element_loop_part(const ProgramPart& part, const Target& target) {
  const std::optional<InstructionId> id = loop_of(part);
  if (!id) return unsupported("there is no loop");
  STRATA_TRY(const ElementLoop loop, indexing::element_loop(part.module, part.module.entry, *id));
  const std::optional<double> microseconds = price(loop, target);
  if (!microseconds) return unsupported("kernels of the body are estimated to be faster");
  ElementLoopPart made{part, {}, part.module.entry_computation()[*id].operands[0], loop.counted.has_value()};
  made.part.microseconds = *microseconds;
  made.part.interpreted = false;
  // Its root without what stays as it is.
  hlo::Computation entry = part.module.entry_computation();
  const InstructionId whole = entry.root;
  const auto leaf_of_output = [&](size_t output) {
    return static_cast<size_t>(hlo::source_of(entry, whole, static_cast<int64_t>(output)).second);
  };
  hlo::Instruction root;
  root.name = entry.name + "_results";
  root.opcode = Opcode::Tuple;
  std::vector<hlo::Shape> shapes;
  made.part.outputs.clear();
  for (size_t i = 0; i < part.outputs.size(); ++i) {
    const size_t leaf = leaf_of_output(i);
    if (loop.last[i] >= 0) {
      const InstructionId value = hlo::source_of(entry, whole, static_cast<int64_t>(i)).first;
      shapes.push_back(entry[value].shape);
      root.operands.push_back(value);
      made.part.outputs.push_back(part.outputs[i]);
      continue;
    }
    if (loop.leaves[leaf].role == ElementLoop::Role::Same) {
      made.same.emplace_back(part.outputs[i], static_cast<int64_t>(leaf));
      continue;
    }
    hlo::Instruction element;
    element.name = entry.name + "_result_" + std::to_string(i);
    element.opcode = Opcode::GetTupleElement;
    element.shape = hlo::leaf_of(entry[*id].shape, static_cast<int64_t>(leaf));
    element.operands = {*id};
    element.attributes = hlo::TupleIndexAttributes{static_cast<int64_t>(leaf)};
    shapes.push_back(element.shape);
    root.operands.push_back(static_cast<InstructionId>(entry.instructions.size()));
    made.part.outputs.push_back(part.outputs[i]);
    entry.instructions.push_back(std::move(element));
  }
  root.shape = hlo::tuple_shape(std::move(shapes));
  made.part.module.computations[static_cast<size_t>(part.module.entry)] = with_root(std::move(entry), std::move(root));
  return made;
}

std::vector<ProgramPart> with_readers(const hlo::Module& module, std::vector<ProgramPart> parts, const Target& target,
                                      std::optional<std::set<ArrayValue>> same) {
  const auto has_loop = [](const ProgramPart& part) {
    return part.interpreted && std::ranges::count(part.module.entry_computation().instructions, Opcode::While,
                                                  &hlo::Instruction::opcode) == 1;
  };
  if (std::ranges::none_of(parts, has_loop)) return parts;
  const hlo::Computation& entry = module.entry_computation();
  std::vector<bool> everywhere = known_values(entry);
  const std::vector<bool> reshaped = free_reshapes(entry);
  for (size_t i = 0; i < everywhere.size(); ++i)
    everywhere[i] = everywhere[i] || reshaped[i] || is_name(entry.instructions[i].opcode);
  std::map<ArrayValue, int> reads;  // by how many parts, and by the result
  for (const ProgramPart& part : parts) {
    for (const ArrayValue& value : part.inputs) ++reads[value];
  }
  for (int leaf = 0; leaf < hlo::leaf_count(entry.root_instruction().shape); ++leaf) {
    if (const std::optional<ArrayValue> value = resolve(entry, entry.root, leaf)) ++reads[*value];
  }
  const auto stays = [&](const ProgramPart& part) {
    return same && std::ranges::all_of(part.inputs, [&](const ArrayValue& value) { return same->contains(value); });
  };
  for (const ProgramPart& part : parts) {
    if (stays(part)) same->insert(part.outputs.begin(), part.outputs.end());
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!has_loop(parts[i])) continue;
    const auto is_made = [&](const ArrayValue& value) { return std::ranges::count(parts[i].outputs, value) > 0; };
    size_t reader = i + 1;
    while (reader < parts.size() && std::ranges::none_of(parts[reader].inputs, is_made)) ++reader;
    if (reader == parts.size() || parts[reader].interpreted || (stays(parts[i]) && !stays(parts[reader]))) continue;
    if (!element_loop_part(parts[i], target)) continue;
    Group group;
    for (const size_t one : {i, reader}) {
      for (const InstructionId id : parts[one].instructions) group = Group(group, Group(id));
    }
    std::vector<ArrayValue> outputs = parts[reader].outputs;
    for (const ArrayValue& value : parts[i].outputs) {
      if (reads.at(value) > std::ranges::count(parts[reader].inputs, value)) outputs.push_back(value);
    }
    ProgramPart joined = build_part(module, everywhere, group, distinct(std::move(outputs)));
    joined.instructions.assign(group.begin(), group.end());
    joined.interpreted = true;
    const auto made = element_loop_part(joined, target);
    if (!made || !emit_fusion(made->part.module, made->part.module.entry, "joined", {.target = target})) continue;
    parts[reader] = std::move(joined);
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
    --i;
  }
  return parts;
}

}  // namespace strata::emitters
