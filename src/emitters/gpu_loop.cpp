#include "emitters/gpu_loop.h"

#include <fmt/format.h>

#include <algorithm>

#include "emitters/buffers.h"

namespace strata::emitters {
namespace {

using Next = LoopFlow::Leaf::Next;

std::vector<std::vector<int>> parameters_of(const EmittedProgram& program, size_t leaves) {
  std::vector<std::vector<int>> parameters(leaves);
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const ProgramBuffer& buffer = program.buffers[b];
    if (buffer.parameter >= 0)
      parameters[static_cast<size_t>(std::max(buffer.element, 0))].push_back(static_cast<int>(b));
  }
  return parameters;
}

/// The leaf over whose value a step of the body may write the array `written`: a copy of it is all that is read of it
/// from that step on, and the body does not hand it on.
int in_place_of(const EmittedProgram& body, int written) {
  int leaf = -1;
  int source = -1;
  for (const ProgramStep& step : body.steps) {
    if (leaf >= 0 && std::count(step.inputs.begin(), step.inputs.end(), source) > 0) return -1;
    const auto output = std::find(step.outputs.begin(), step.outputs.end(), written);
    if (output == step.outputs.end() || !step.fusion) continue;
    for (const Preparation& one : step.fusion->decision().preparations) {
      if (one.kind != Preparation::Kind::Copy || one.temporary || one.output != output - step.outputs.begin()) continue;
      const auto input = static_cast<size_t>(one.input);
      source = step.inputs[input];
      const ProgramBuffer& from = body.buffers[static_cast<size_t>(source)];
      const bool once = std::count(step.inputs.begin(), step.inputs.end(), source) == 1 &&
                        std::count(body.results.begin(), body.results.end(), source) == 0;
      if (input < step.only_copied.size() && step.only_copied[input] && from.parameter >= 0 && once)
        leaf = std::max(from.element, 0);
    }
  }
  return leaf;
}

}  // namespace

Result<std::unique_ptr<GpuLoop>> GpuLoop::load(const GpuDevice& device, std::shared_ptr<const LoopStep> step,
                                               const EmitOptions& options, const KernelLoader& loader,
                                               std::shared_ptr<StreamOrder> order) {
  const LoopStep& loop = *step;
  std::unique_ptr<GpuLoop> made(new GpuLoop(device, std::move(step), order));
  STRATA_TRY(made->body_, GpuRunner::load_body(device, *loop.body, options, loader, order));
  made->body_parameters_ = parameters_of(*loop.body, loop.leaves.size());
  if (loop.counted) {
    STRATA_CHECK(made->plan_counted());
    return made;
  }
  STRATA_TRY(made->condition_, GpuRunner::load_body(device, *loop.condition, options, loader, order));
  made->condition_parameters_ = parameters_of(*loop.condition, loop.leaves.size());
  STRATA_CHECK(made->plan_open());
  return made;
}

int64_t GpuLoop::bytes_of_leaf(size_t leaf) const {
  const hlo::Shape& shape = hlo::leaf_of(loop_->state, static_cast<int64_t>(leaf));
  return shape.element_count() * hlo::byte_width(shape.type);
}

Result<void> GpuLoop::plan_counted() {
  LoopFlow flow;
  flow.count = loop_->counted->count;
  for (size_t leaf = 0; leaf < loop_->leaves.size(); ++leaf) {
    LoopFlow::Leaf& it = flow.leaves.emplace_back();
    const int next = next_of(leaf);
    const ProgramBuffer& buffer = body_buffer(next);
    it.bytes = bytes_of_leaf(leaf);
    it.wanted = loop_->leaves[leaf].result >= 0;
    it.counter = loop_->counted->counter(static_cast<int64_t>(leaf)) != nullptr;
    if (buffer.parameter >= 0) {
      it.from = std::max(buffer.element, 0);
    } else {
      it.next = buffer.constant ? Next::Constant : Next::Written;
      it.from = next;
      if (!buffer.constant) it.in_place_of = in_place_of(*loop_->body, next);
    }
  }
  buffers_ = plan_loop_buffers(flow);
  for (const int64_t bytes : buffers_.scratch_bytes) {
    STRATA_TRY(GpuMemory memory, GpuMemory::allocate(device_, std::max<int64_t>(bytes, 1)));
    scratch_.push_back(std::move(memory));
  }
  for (const auto& counter : loop_->counted->counters) {
    std::vector<std::byte> values;
    for (int64_t k = 0; k <= flow.count; ++k) {
      const hlo::Literal value = counter_value(*loop_, counter, k);
      values.insert(values.end(), value.bytes(), value.bytes() + value.byte_size());
    }
    STRATA_TRY(GpuMemory memory, GpuMemory::allocate(device_, std::ssize(values)));
    const CudaDriver& driver = device_.driver();
    const int status = driver.copy_to_device(memory.pointer(), values.data(), values.size());
    STRATA_CHECK(driver.check(status, "copying to the GPU"));
    counters_.emplace(static_cast<size_t>(counter.leaf), std::move(memory));
  }
  return device_.synchronize();
}

Result<void> GpuLoop::plan_open() {
  for (size_t leaf = 0; leaf < loop_->leaves.size(); ++leaf) {
    const LoopStep::Leaf& it = loop_->leaves[leaf];
    if (!it.changes) continue;
    const int64_t bytes = std::max<int64_t>(bytes_of_leaf(leaf), 1);
    if (it.result < 0) {
      STRATA_TRY(GpuMemory memory, GpuMemory::allocate(device_, bytes));
      states_.emplace(leaf, std::move(memory));
    }
    STRATA_TRY(GpuMemory memory, GpuMemory::allocate(device_, bytes));
    nexts_.emplace(leaf, std::move(memory));
  }
  const int answer = loop_->condition->results.front();
  const ProgramBuffer& buffer = loop_->condition->buffers[static_cast<size_t>(answer)];
  if (buffer.constant || buffer.parameter >= 0) return {};
  STRATA_TRY(answer_, GpuMemory::allocate(device_, 1));
  condition_->bind(answer, answer_->pointer());
  return {};
}

CudaPointer GpuLoop::place(const LoopPlace& place, size_t of, const Pointers& pointers) const {
  const auto leaf = static_cast<size_t>(place.number);
  switch (place.kind) {
    case LoopPlace::Kind::Initial:
      return pointers(loop_->leaves[leaf].initial);
    case LoopPlace::Kind::Result:
      return pointers(loop_->leaves[leaf].result);
    case LoopPlace::Kind::Scratch:
      return scratch_[leaf].pointer();
    case LoopPlace::Kind::Constant:
      return body_->pointer(place.number);
    case LoopPlace::Kind::Counter:
      return counters_.at(of).pointer() + static_cast<CudaPointer>(place.number * bytes_of_leaf(of));
  }
  return 0;
}

Result<void> GpuLoop::copy(CudaPointer to, CudaPointer from, size_t leaf) const {
  const auto bytes = static_cast<size_t>(bytes_of_leaf(leaf));
  if (to == from || bytes == 0) return {};
  order_->behind_kernel = false;
  const CudaDriver& driver = device_.driver();
  return driver.check(driver.copy_on_device_later(to, from, bytes, device_.stream()), "copying a loop's state");
}

Result<void> GpuLoop::run(const Pointers& pointers) const {
  return condition_ ? run_open(pointers) : run_counted(pointers);
}

Result<void> GpuLoop::run_counted(const Pointers& pointers) const {
  const int64_t count = loop_->counted->count;
  for (int64_t k = 0; k < count; ++k) {
    const std::vector<LoopPlace>& state = buffers_.states[static_cast<size_t>(k)];
    const std::vector<LoopPlace>& next = buffers_.states[static_cast<size_t>(k) + 1];
    for (size_t leaf = 0; leaf < state.size(); ++leaf) {
      for (const int parameter : body_parameters_[leaf]) body_->bind(parameter, place(state[leaf], leaf, pointers));
      const ProgramBuffer& buffer = body_buffer(next_of(leaf));
      if (buffer.parameter < 0 && !buffer.constant) body_->bind(next_of(leaf), place(next[leaf], leaf, pointers));
    }
    STRATA_CHECK(body_->run_steps());
  }
  // Those that lie in another's result first: it is written then.
  for (const bool in_result : {true, false}) {
    for (size_t leaf = 0; leaf < loop_->leaves.size(); ++leaf) {
      const LoopPlace& last = buffers_.states.back()[leaf];
      if (loop_->leaves[leaf].result < 0 || (last.kind == LoopPlace::Kind::Result) != in_result) continue;
      STRATA_CHECK(copy(pointers(loop_->leaves[leaf].result), place(last, leaf, pointers), leaf));
    }
  }
  return {};
}

Result<void> GpuLoop::run_open(const Pointers& pointers) const {
  std::vector<CudaPointer> state;
  for (size_t leaf = 0; leaf < loop_->leaves.size(); ++leaf) {
    const LoopStep::Leaf& it = loop_->leaves[leaf];
    const CudaPointer initial = pointers(it.initial);
    state.push_back(!it.changes ? initial : it.result >= 0 ? pointers(it.result) : states_.at(leaf).pointer());
    STRATA_CHECK(copy(state.back(), initial, leaf));
    for (const int parameter : body_parameters_[leaf]) body_->bind(parameter, state.back());
    for (const int parameter : condition_parameters_[leaf]) condition_->bind(parameter, state.back());
  }
  // A value that is written for several leaves is written once.
  std::map<int, size_t> writer;
  for (size_t leaf = 0; leaf < state.size(); ++leaf) {
    const ProgramBuffer& buffer = body_buffer(next_of(leaf));
    if (buffer.parameter >= 0 || buffer.constant) continue;
    const size_t first = writer.try_emplace(next_of(leaf), leaf).first->second;
    const bool over = in_place_of(*loop_->body, next_of(leaf)) == static_cast<int>(leaf) && first == leaf;
    if (first == leaf) body_->bind(next_of(leaf), over ? state[leaf] : nexts_.at(leaf).pointer());
  }
  while (true) {
    STRATA_CHECK(condition_->run_steps());
    STRATA_TRY(const hlo::Literal value, condition_->download(loop_->condition->results.front()));
    if (value.get_integer(0) == 0) return {};
    STRATA_CHECK(body_->run_steps());
    // Values that only move are read before anything is written over them.
    std::vector<CudaPointer> from(state.size());
    for (size_t leaf = 0; leaf < state.size(); ++leaf) {
      const ProgramBuffer& buffer = body_buffer(next_of(leaf));
      if (!loop_->leaves[leaf].changes) continue;
      from[leaf] = body_->pointer(next_of(leaf));
      if (buffer.parameter < 0 || from[leaf] == state[leaf]) continue;
      STRATA_CHECK(copy(nexts_.at(leaf).pointer(), from[leaf], leaf));
      from[leaf] = nexts_.at(leaf).pointer();
    }
    for (size_t leaf = 0; leaf < state.size(); ++leaf) {
      if (loop_->leaves[leaf].changes) STRATA_CHECK(copy(state[leaf], from[leaf], leaf));
    }
  }
}

std::string GpuLoop::description() const {
  const size_t steps = loop_->body->steps.size();
  const std::string each = fmt::format("{} step{} each", steps, steps == 1 ? "" : "s");
  if (condition_) return fmt::format("loop until its condition is false, {}", each);
  return fmt::format("loop of {} iterations, {}", loop_->counted->count, each);
}

std::optional<std::string> GpuLoop::step_on_host() const {
  if (condition_) return "the condition of a loop is read on the host";
  return body_->step_on_host();
}

}  // namespace strata::emitters
