// Programs on this machine's processor.
#include <algorithm>
#include <cstring>

#include "emitters/buffers.h"
#include "emitters/program.h"
#include "hlo/evaluate.h"

namespace strata::emitters {
namespace {

using hlo::Literal;

/// The arrays as one literal of the shape, nested as it is.
Literal assemble(const hlo::Shape& shape, const std::vector<Literal>& arrays, size_t& next) {
  if (!shape.is_tuple()) return shape.is_array() ? arrays[next++] : Literal();
  std::vector<Literal> elements;
  for (const hlo::Shape& element : shape.elements) elements.push_back(assemble(element, arrays, next));
  return Literal::tuple(std::move(elements));
}

/// One run: where each array lies. What the caller has not given is the run's own, from the step that writes it to the
/// last one that reads it.
class HostRun {
 public:
  /// `given`: by buffer, the caller's memory; null: none. `poison`: whether own arrays are NaN before they are written.
  HostRun(const EmittedProgram& program, std::vector<std::byte*> given, bool poison)
      : program_(program), at_(std::move(given)), own_(at_.size()), poison_(poison), last_(at_.size(), -1) {
    for (size_t i = 0; i < program.steps.size(); ++i) {
      const ProgramStep& step = program.steps[i];
      for (const std::vector<int>* list : {&step.inputs, &step.outputs, &step.temporaries}) use(*list, i);
      if (!step.loop) continue;
      for (const LoopStep::Leaf& leaf : step.loop->leaves) use({leaf.initial}, i);
    }
    use(program.results, program.steps.size());
  }

  Result<void> run() {
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      STRATA_CHECK(run(program_.steps[i]));
      for (size_t buffer = 0; buffer < own_.size(); ++buffer) {
        if (last_[buffer] == static_cast<int64_t>(i)) own_[buffer] = {};
      }
    }
    return {};
  }

  Literal literal(int buffer) const { return from_memory(at_[static_cast<size_t>(buffer)], shape(buffer)); }

 private:
  void use(const std::vector<int>& buffers, size_t step) {
    for (const int buffer : buffers) {
      if (buffer >= 0) last_[static_cast<size_t>(buffer)] = static_cast<int64_t>(step);
    }
  }

  const hlo::Shape& shape(int buffer) const { return program_.buffers[static_cast<size_t>(buffer)].shape; }

  /// Where a step writes.
  std::byte* place(int buffer) {
    const auto number = static_cast<size_t>(buffer);
    if (at_[number] == nullptr || own_[number].data() != nullptr) {
      const size_t bytes = byte_count(shape(buffer));
      own_[number] = poison_ ? Buffer(bytes) : Buffer::unfilled(bytes);
      at_[number] = own_[number].data();
    }
    return at_[number];
  }

  Result<void> run_loop(const LoopStep& loop);
  Result<void> run_interpreted(const ProgramStep& step);
  void prepare(const ProgramStep& step);
  Result<void> run(const ProgramStep& step);

  const EmittedProgram& program_;
  std::vector<std::byte*> at_;
  std::vector<Buffer> own_;
  bool poison_;
  std::vector<int64_t> last_;  ///< the step after which nothing reads it
};

Result<void> HostRun::run_loop(const LoopStep& loop) {
  std::vector<Literal> arrays;
  for (const LoopStep::Leaf& leaf : loop.leaves) {
    if (leaf.initial == leaf.result) place(leaf.result);  // nothing has written it
    arrays.push_back(literal(leaf.initial));
  }
  for (int64_t k = 0;; ++k) {
    size_t next = 0;
    const std::vector<Literal> state{assemble(loop.state, arrays, next)};
    if (k == (loop.counted ? loop.counted->count : loop.once ? 1 : -1)) break;
    if (!loop.counted) {
      STRATA_TRY(const Literal goes_on, run_on_cpu(*loop.condition, state));
      if (goes_on.get_integer(0) == 0) break;
    }
    STRATA_TRY(const Literal after, run_on_cpu(*loop.body, state));
    for (size_t leaf = 0; leaf < arrays.size(); ++leaf) arrays[leaf] = hlo::leaf_of(after, static_cast<int64_t>(leaf));
    if (!loop.counted) continue;
    for (const auto& counter : loop.counted->counters)
      arrays[static_cast<size_t>(counter.leaf)] = counter_value(loop, counter, k + 1);
  }
  for (size_t leaf = 0; leaf < arrays.size(); ++leaf) {
    const int result = loop.leaves[leaf].result;
    if (result >= 0) to_memory(arrays[leaf], shape(result), place(result));
  }
  return {};
}

Result<void> HostRun::run_interpreted(const ProgramStep& step) {
  std::vector<Literal> arguments;
  for (const int input : step.inputs) arguments.push_back(literal(input));
  const auto evaluated = [&]() -> Result<Literal> {
    if (!step.lax) return hlo::evaluate(*step.interpreted, arguments);
    return run_on_host(*step.lax->graph, step.lax->inputs, arguments, shape(step.outputs.front()));
  };
  STRATA_TRY(const Literal result, evaluated());
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const Literal& one = result.shape().is_tuple() ? result.elements()[i] : result;
    to_memory(one, shape(step.outputs[i]), place(step.outputs[i]));
  }
  return {};
}

/// Copies and fills what kernels of the step expect in their outputs and temporaries.
void HostRun::prepare(const ProgramStep& step) {
  for (const Preparation& one : step.fusion->decision().preparations) {
    const int output = (one.temporary ? step.temporaries : step.outputs)[static_cast<size_t>(one.output)];
    std::byte* to = at_[static_cast<size_t>(output)];
    const size_t bytes = byte_count(shape(output));
    if (one.kind == Preparation::Kind::Copy) {
      std::memcpy(to, at_[static_cast<size_t>(step.inputs[static_cast<size_t>(one.input)])], bytes);
    } else {
      const auto width = static_cast<size_t>(hlo::byte_width(one.value.type()));
      for (size_t at = 0; at < bytes; at += width) std::memcpy(to + at, one.value.bytes(), width);
    }
  }
}

Result<void> HostRun::run(const ProgramStep& step) {
  if (step.loop) return run_loop(*step.loop);
  if (!step.fusion) return run_interpreted(step);
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const int input : step.inputs) inputs.push_back(at_[static_cast<size_t>(input)]);
  for (const std::vector<int>* written : {&step.outputs, &step.temporaries}) {
    for (const int output : *written) outputs.push_back(place(output));
  }
  prepare(step);
  return step.fusion->run_on_cpu(inputs, outputs);
}

/// The value of a parameter's buffer among the arguments.
Result<Literal> argument_of(const ProgramBuffer& buffer, std::span<const Literal> arguments) {
  if (static_cast<size_t>(buffer.parameter) >= arguments.size())
    return invalid("there are {} arguments; the program has a parameter {}", arguments.size(), buffer.parameter);
  const Literal& whole = arguments[static_cast<size_t>(buffer.parameter)];
  const Literal& one = buffer.element < 0 ? whole : hlo::leaf_of(whole, buffer.element);
  if (hlo::same_shape(one.shape(), buffer.shape)) return one;
  return invalid("argument {} is {}, not {}", buffer.parameter, hlo::to_string(one.shape()),
                 hlo::to_string(buffer.shape));
}

}  // namespace

Result<void> run_on_cpu(const EmittedProgram& program, std::span<std::byte* const> given) {
  return HostRun(program, {given.begin(), given.end()}, /*poison=*/false).run();
}

Result<Literal> run_on_cpu(const EmittedProgram& program, std::span<const Literal> arguments) {
  std::vector<Buffer> kept(program.buffers.size());
  std::vector<std::byte*> given(program.buffers.size(), nullptr);
  for (size_t i = 0; i < given.size(); ++i) {
    const ProgramBuffer& buffer = program.buffers[i];
    if (buffer.constant) kept[i] = to_buffer(*buffer.constant, buffer.shape);
    if (buffer.parameter >= 0) {
      STRATA_TRY(const Literal value, argument_of(buffer, arguments));
      if (buffer.shape.is_array()) kept[i] = to_buffer(value, buffer.shape);
    }
    given[i] = kept[i].data();
  }
  HostRun run(program, std::move(given), /*poison=*/true);
  STRATA_CHECK(run.run());
  std::vector<Literal> arrays;
  for (const int result : program.results) arrays.push_back(run.literal(result));
  return assemble_results(program, arrays);
}

Literal counter_value(const LoopStep& loop, const hlo::CountedLoop::Counter& counter, int64_t iteration) {
  Literal value(hlo::leaf_of(loop.state, counter.leaf));
  const int64_t number = counter.first + iteration * counter.step;
  std::memcpy(value.mutable_bytes(), &number, value.byte_size());
  return value;
}

Literal assemble_results(const EmittedProgram& program, const std::vector<Literal>& arrays) {
  size_t next = 0;
  return assemble(program.result_shape, arrays, next);
}

}  // namespace strata::emitters
