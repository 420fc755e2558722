#include <algorithm>
#include <map>

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

/// Chooses the pairs of steps, from the last one back: so what is to lie in a parameter at the end is known first.
class OperandChoice {
 public:
  OperandChoice(EmittedProgram& program, ResultMemory results)
      : program_(program), results_(results), over_(written_over(program)) {}

  Result<void> run() {
    for (size_t step = program_.steps.size(); step-- > 0;) STRATA_CHECK(choose(step));
    // Fusions that share kernels have the same pairs.
    std::map<std::string, std::vector<Overwrite>> common;
    for (size_t step = 0; step < program_.steps.size(); ++step) {
      if (!program_.steps[step].fusion) continue;
      const std::vector<Overwrite>& pairs = chosen_[step];
      const auto [known, is_new] = common.try_emplace(program_.steps[step].fusion->module_name(), pairs);
      if (!is_new)
        std::erase_if(known->second, [&](const Overwrite& one) { return std::ranges::count(pairs, one) == 0; });
    }
    for (ProgramStep& step : program_.steps) {
      if (!step.fusion) continue;
      const auto pairs = common.find(step.fusion->module_name());
      if (pairs == common.end() || pairs->second.empty()) continue;
      step.fusion->write_over(pairs->second);
      step.only_copied.resize(step.inputs.size(), false);
      for (const Overwrite& one : pairs->second) step.only_copied[static_cast<size_t>(one.input)] = true;
    }
    return {};
  }

 private:
  /// Parameters first: another operand is taken for its memory alone.
  Result<void> choose(size_t number) {
    const ProgramStep& step = program_.steps[number];
    if (!step.fusion) return {};
    for (const bool parameters : {true, false}) {
      for (size_t output = 0; output < step.outputs.size(); ++output) {
        for (size_t input = 0; input < step.inputs.size(); ++input) {
          if (is_parameter(step.inputs[input]) != parameters) continue;
          STRATA_CHECK(choose(number, {static_cast<int>(output), static_cast<int>(input)}));
        }
      }
    }
    return {};
  }

  Result<void> choose(size_t number, const Overwrite& pair) {
    const ProgramStep& step = program_.steps[number];
    const int to = step.outputs[static_cast<size_t>(pair.output)];
    const int from = step.inputs[static_cast<size_t>(pair.input)];
    const bool free = over_[static_cast<size_t>(to)] < 0 && std::ranges::count(over_, from) == 0;
    if (!free || !ends_at(program_, from, number) || !ends_in_parameter(from, to)) return {};
    STRATA_TRY(const bool possible, is_possible(*step.fusion, pair));
    if (!possible) return {};
    chosen_[number].push_back(pair);
    over_[static_cast<size_t>(to)] = from;
    return {};
  }

  bool is_parameter(int buffer) const { return program_.buffers[static_cast<size_t>(buffer)].parameter >= 0; }

  Result<bool> is_possible(const EmittedFusion& fusion, const Overwrite& pair) {
    const hlo::Shape& from = fusion.inputs()[static_cast<size_t>(pair.input)];
    const hlo::Shape& to = fusion.outputs()[static_cast<size_t>(pair.output)];
    if (from.type != to.type || from.element_count() != to.element_count()) return false;
    auto known = possible_.find(fusion.module_name());
    if (known == possible_.end()) {
      STRATA_TRY(std::vector<Overwrite> found, fusion.possible_overwrites());
      known = possible_.emplace(fusion.module_name(), std::move(found)).first;
    }
    return std::ranges::count(known->second, pair) > 0;
  }

  /// Whether `to` is where a result begins that may lie in a parameter: in `from`, where that is a parameter.
  bool ends_in_parameter(int from, int to) const {
    return std::ranges::any_of(program_.aliases, [&](const ResultAlias& alias) {
      if (results_ == ResultMemory::Own && !alias.must) return false;
      int first = program_.results[alias.result];
      while (over_[static_cast<size_t>(first)] >= 0) first = over_[static_cast<size_t>(first)];
      return first == to && (!is_parameter(from) || alias.parameter == from);
    });
  }

  EmittedProgram& program_;
  const ResultMemory results_;
  std::vector<int> over_;
  std::map<size_t, std::vector<Overwrite>> chosen_;         ///< by step
  std::map<std::string, std::vector<Overwrite>> possible_;  ///< by the fusion that has the kernels
};

}  // namespace

Result<void> write_over_operands(EmittedProgram& program, ResultMemory results) {
  if (program.aliases.empty()) return {};
  return OperandChoice(program, results).run();
}

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
    if (step.library) {
      // Where both are one array, what the library writes over need not be copied.
      const std::optional<size_t> from = overwritten_argument(step.library->work);
      if (!from) continue;
      const std::vector<int>& arguments = step.library->arguments;
      const size_t to = arguments.size() - results_of(step.library->work);
      const bool once = std::count(arguments.begin(), arguments.end(), arguments[*from]) == 1;
      if (once && std::ranges::count(step.outputs, arguments[to]) > 0) write(arguments[to], arguments[*from], i);
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
