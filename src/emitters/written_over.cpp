#include <algorithm>

#include "emitters/program_image.h"

namespace strata::emitters {
namespace {

/// Whether the array is of no use from a step on but to the step, which names it once.
bool ends_at(const EmittedProgram& program, int buffer, size_t step) {
  const ProgramBuffer& it = program.buffers[static_cast<size_t>(buffer)];
  if (it.constant || std::count(program.results.begin(), program.results.end(), buffer) > 0) return false;
  for (size_t i = step; i < program.steps.size(); ++i) {
    const std::vector<int>& inputs = program.steps[i].inputs;
    if (std::count(inputs.begin(), inputs.end(), buffer) > (i == step ? 1 : 0)) return false;
  }
  return true;
}

}  // namespace

std::vector<int> written_over(const EmittedProgram& program) {
  std::vector<int> over(program.buffers.size(), -1);
  const auto write = [&](int output, int input, size_t step) {
    const bool taken = std::count(over.begin(), over.end(), input) > 0;
    int& known = over[static_cast<size_t>(output)];
    if (!taken && known < 0 && ends_at(program, input, step)) known = input;
  };
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const ProgramStep& step = program.steps[i];
    if (step.loop) {
      // Of a loop that writes over its state, the first value may be the result's array.
      const std::vector<int> inside = written_over(*step.loop->body);
      for (size_t leaf = 0; leaf < step.loop->leaves.size(); ++leaf) {
        const LoopStep::Leaf& it = step.loop->leaves[leaf];
        const auto same = [&](const LoopStep::Leaf& other) { return other.initial == it.initial; };
        const bool once = std::count_if(step.loop->leaves.begin(), step.loop->leaves.end(), same) == 1;
        if (it.result >= 0 && it.result != it.initial && once &&
            leaf_written_over(*step.loop, inside, leaf) == static_cast<int>(leaf))
          write(it.result, it.initial, i);
      }
      continue;
    }
    if (!step.fusion) continue;
    for (const Preparation& one : step.fusion->decision().preparations) {
      const auto input = static_cast<size_t>(one.input);
      if (one.kind != Preparation::Kind::Copy || one.temporary || input >= step.only_copied.size()) continue;
      if (step.only_copied[input]) write(step.outputs[static_cast<size_t>(one.output)], step.inputs[input], i);
    }
  }
  return over;
}

int leaf_written_over(const LoopStep& loop, const std::vector<int>& over, size_t leaf) {
  int buffer = loop.body->results[leaf];
  const auto is_parameter = [&](int of) { return loop.body->buffers[static_cast<size_t>(of)].parameter >= 0; };
  if (is_parameter(buffer)) return -1;
  while (over[static_cast<size_t>(buffer)] >= 0) {
    buffer = over[static_cast<size_t>(buffer)];
    if (is_parameter(buffer)) return std::max(loop.body->buffers[static_cast<size_t>(buffer)].element, 0);
  }
  return -1;
}

}  // namespace strata::emitters
