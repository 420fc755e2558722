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

Result<void> run_loop(const LoopStep& loop, const std::vector<ProgramBuffer>& shapes, std::vector<Buffer>& buffers) {
  std::vector<Literal> arrays;
  for (const LoopStep::Leaf& leaf : loop.leaves) {
    const auto initial = static_cast<size_t>(leaf.initial);
    arrays.push_back(from_buffer(buffers[initial], shapes[initial].shape));
  }
  for (int64_t k = 0;; ++k) {
    size_t next = 0;
    const std::vector<Literal> state{assemble(loop.state, arrays, next)};
    if (loop.counted && k == loop.counted->count) break;
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
    if (result >= 0)
      buffers[static_cast<size_t>(result)] = to_buffer(arrays[leaf], shapes[static_cast<size_t>(result)].shape);
  }
  return {};
}

Result<void> run_step(const ProgramStep& step, const std::vector<ProgramBuffer>& shapes, std::vector<Buffer>& buffers) {
  const auto shape_of = [&](int buffer) -> const hlo::Shape& { return shapes[static_cast<size_t>(buffer)].shape; };
  if (step.loop) return run_loop(*step.loop, shapes, buffers);
  if (!step.fusion) {
    std::vector<Literal> arguments;
    for (const int input : step.inputs) {
      arguments.push_back(from_buffer(buffers[static_cast<size_t>(input)], shape_of(input)));
    }
    const auto run = [&]() -> Result<Literal> {
      if (!step.lax) return hlo::evaluate(*step.interpreted, arguments);
      return run_on_host(*step.lax->graph, step.lax->inputs, arguments, shape_of(step.outputs.front()));
    };
    STRATA_TRY(const Literal result, run());
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const Literal& one = result.shape().is_tuple() ? result.elements()[i] : result;
      buffers[static_cast<size_t>(step.outputs[i])] = to_buffer(one, shape_of(step.outputs[i]));
    }
    return {};
  }
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const int input : step.inputs) inputs.push_back(buffers[static_cast<size_t>(input)].data());
  for (const std::vector<int>* written : {&step.outputs, &step.temporaries}) {
    for (const int output : *written) {
      const hlo::Shape& shape = shape_of(output);
      buffers[static_cast<size_t>(output)] =
          Buffer(static_cast<size_t>(shape.element_count()) * static_cast<size_t>(hlo::byte_width(shape.type)));
      outputs.push_back(buffers[static_cast<size_t>(output)].data());
    }
  }
  for (const Preparation& one : step.fusion->decision().preparations) {
    const std::vector<int>& written = one.temporary ? step.temporaries : step.outputs;
    Buffer& output = buffers[static_cast<size_t>(written[static_cast<size_t>(one.output)])];
    if (one.kind == Preparation::Kind::Copy) {
      std::memcpy(output.data(), inputs[static_cast<size_t>(one.input)], output.size());
    } else {
      const auto width = static_cast<size_t>(hlo::byte_width(one.value.type()));
      for (size_t at = 0; at < output.size(); at += width) std::memcpy(output.data() + at, one.value.bytes(), width);
    }
  }
  STRATA_CHECK(step.fusion->run_on_cpu(inputs, outputs));
  for (const int temporary : step.temporaries) buffers[static_cast<size_t>(temporary)] = {};
  return {};
}

}  // namespace

Result<Literal> run_on_cpu(const EmittedProgram& program, std::span<const Literal> arguments) {
  std::vector<Buffer> buffers(program.buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    const ProgramBuffer& buffer = program.buffers[i];
    if (buffer.constant) buffers[i] = to_buffer(*buffer.constant, buffer.shape);
    if (buffer.parameter < 0) continue;
    if (static_cast<size_t>(buffer.parameter) >= arguments.size()) {
      return invalid("there are {} arguments; the program has a parameter {}", arguments.size(), buffer.parameter);
    }
    const Literal& whole = arguments[static_cast<size_t>(buffer.parameter)];
    const Literal& one = buffer.element < 0 ? whole : hlo::leaf_of(whole, buffer.element);
    if (!hlo::same_shape(one.shape(), buffer.shape)) {
      return invalid("argument {} is {}, not {}", buffer.parameter, hlo::to_string(one.shape()),
                     hlo::to_string(buffer.shape));
    }
    if (buffer.shape.is_array()) buffers[i] = to_buffer(one, buffer.shape);
  }
  for (const ProgramStep& step : program.steps) STRATA_CHECK(run_step(step, program.buffers, buffers));
  std::vector<Literal> arrays;
  for (const int result : program.results) {
    arrays.push_back(
        from_buffer(buffers[static_cast<size_t>(result)], program.buffers[static_cast<size_t>(result)].shape));
  }
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
