// Loops, as the launcher runs them (gpu_steps.h).
#include <algorithm>
#include <set>
#include <utility>

#include "runtime/gpu_steps.h"

namespace strata {

Result<LoopFlow> flow_of(const LaunchManifest& manifest, const GpuLoop& loop) {
  std::map<std::string, int> numbers;
  for (size_t i = 0; i < manifest.buffers.size(); ++i) numbers[manifest.buffers[i].name] = static_cast<int>(i);
  const auto number = [&](const std::string& name) -> Result<int> {
    const auto found = numbers.find(name);
    if (found == numbers.end()) return invalid("a loop names '{}', which is no buffer", name);
    return found->second;
  };
  std::map<std::string, int> current;
  for (size_t i = 0; i < loop.values.size(); ++i) {
    for (const std::string& name : loop.values[i].current) current[name] = static_cast<int>(i);
  }
  constexpr int64_t kMostCounted = 1'000'000;
  LoopFlow flow;
  flow.count = loop.count.value_or(0);
  if (flow.count < 0 || flow.count > kMostCounted) return invalid("a loop has {} iterations", flow.count);
  for (const GpuLoop::Value& value : loop.values) {
    LoopFlow::Leaf& it = flow.leaves.emplace_back();
    STRATA_TRY(const int initial, number(value.initial));
    it.bytes = manifest.buffers[static_cast<size_t>(initial)].type.bytes();
    it.wanted = !value.result.empty();
    it.counter = !value.counted.empty();
    it.fresh = value.in_place;
    if (it.fresh && !it.wanted) return invalid("a loop writes over '{}', which has no result", value.initial);
    const auto moved = current.find(value.next);
    if (moved != current.end()) {
      it.from = moved->second;
      continue;
    }
    STRATA_TRY(it.from, number(value.next));
    const bool constant = manifest.buffers[static_cast<size_t>(it.from)].role == BufferRole::Constant;
    it.next = constant ? LoopFlow::Leaf::Next::Constant : LoopFlow::Leaf::Next::Written;
    if (!constant) it.in_place_of = static_cast<int>(value.over);
  }
  return flow;
}

CudaPointer StepRunner::place(const LoadedLoop& loop, const LoopPlace& place, size_t of) const {
  const auto number = static_cast<size_t>(place.number);
  switch (place.kind) {
    case LoopPlace::Kind::Initial:
      return pointers_[loop.values[number].initial];
    case LoopPlace::Kind::Result:
      return pointers_[loop.values[number].result];
    case LoopPlace::Kind::Scratch:
      return pointers_[loop.scratch[number]];
    case LoopPlace::Kind::Constant:
      return pointers_[number];
    case LoopPlace::Kind::Counter:
      return pointers_[loop.values[of].counted] + static_cast<CudaPointer>(place.number * loop.values[of].bytes);
  }
  return 0;
}

void StepRunner::bind(size_t buffer, CudaPointer pointer) {
  pointers_[buffer] = pointer;
  const auto others = lying_in_.find(buffer);
  if (others == lying_in_.end()) return;
  for (const size_t other : others->second) pointers_[other] = pointer;
}

Result<void> StepRunner::run_counted(const LoadedLoop& loop, int64_t count) {
  ++counted_;
  for (int64_t k = 0; k < count; ++k) {
    const std::vector<LoopPlace>& state = loop.places.states[static_cast<size_t>(k)];
    const std::vector<LoopPlace>& next = loop.places.states[static_cast<size_t>(k) + 1];
    for (size_t i = 0; i < state.size(); ++i) {
      const LoadedLoop::Value& value = loop.values[i];
      for (const size_t current : value.current) bind(current, place(loop, state[i], i));
      if (value.writes) bind(value.next, place(loop, next[i], i));
    }
    STRATA_CHECK(run(loop.body));
  }
  --counted_;
  // Those that lie in another's result first: it is written then.
  for (const bool in_result : {true, false}) {
    for (size_t i = 0; i < loop.values.size(); ++i) {
      const LoopPlace& last = loop.places.states.back()[i];
      const LoadedLoop::Value& value = loop.values[i];
      if (value.result == LoadedLoop::kNone || (last.kind == LoopPlace::Kind::Result) != in_result) continue;
      STRATA_CHECK(copy(pointers_[value.result], place(loop, last, i), value.bytes));
    }
  }
  return {};
}

Result<bool> StepRunner::goes_on(const LoadedLoop& loop) {
  STRATA_CHECK(run(loop.condition));
  behind_kernel_ = false;
  unsigned char answer = 0;
  STRATA_CHECK(GpuArray(device_, pointers_[loop.answer], 1).download(&answer));
  return (answer & 1) != 0;  // a pred counts by its low bit
}

Result<LoopState> StepRunner::begin_asking(const LoadedLoop& loop) {
  LoopState state;
  for (size_t i = 0; i < loop.values.size(); ++i) {
    const LoadedLoop::Value& value = loop.values[i];
    const CudaPointer initial = pointers_[value.initial];
    const CudaPointer last = value.changes ? pointers_[value.result] : initial;
    const bool stays = !value.changes || value.over == static_cast<int64_t>(i);
    state.first.push_back(loop.once ? initial : last);
    state.second.push_back(loop.once || stays ? last : pointers_[value.spare]);
    STRATA_CHECK(copy(last, initial, value.bytes));
  }
  bind_iteration(loop, state.first, state.second);
  return state;
}

void StepRunner::bind_iteration(const LoadedLoop& loop, const std::vector<CudaPointer>& from,
                                const std::vector<CudaPointer>& to) {
  for (size_t i = 0; i < from.size(); ++i) {
    for (const size_t current : loop.values[i].current) bind(current, from[i]);
  }
  // A value that is written for several arrays is written once.
  std::set<size_t> written;
  for (size_t i = 0; i < to.size(); ++i) {
    const LoadedLoop::Value& value = loop.values[i];
    if (value.writes && written.insert(value.next).second) bind(value.next, to[i]);
  }
}

Result<void> StepRunner::run_body(const LoadedLoop& loop, const std::vector<CudaPointer>& from,
                                  const std::vector<CudaPointer>& to) {
  bind_iteration(loop, from, to);
  STRATA_CHECK(run(loop.body));
  for (size_t i = 0; i < to.size(); ++i) {
    if (loop.values[i].changes) STRATA_CHECK(copy(to[i], pointers_[loop.values[i].next], loop.values[i].bytes));
  }
  bind_iteration(loop, to, from);
  return {};
}

Result<void> StepRunner::settle(const LoadedLoop& loop, const LoopState& state) {
  for (size_t i = 0; i < state.first.size(); ++i)
    STRATA_CHECK(copy(state.first[i], state.second[i], loop.values[i].bytes));
  bind_iteration(loop, state.first, state.second);
  return {};
}

LoopGraphs::Steps StepRunner::recorded(std::function<Result<void>()> steps) {
  return [this, steps = std::move(steps)](CudaStream stream) -> Result<void> {
    const CudaStream outer = std::exchange(stream_, stream);
    behind_kernel_ = false;
    const Result<void> worked = steps();
    stream_ = outer;
    behind_kernel_ = false;
    return worked;
  };
}

Result<void> StepRunner::add_asking(const LoadedLoop& loop, const LoopState& state) {
  const bool overlap = std::exchange(overlap_, overlap_ && loops_->overlaps());
  const auto on = [this](const auto& steps) { return recorded(steps); };
  LoopGraphs::Loop parts;
  parts.once = loop.once;
  parts.condition = on([&] { return run(loop.condition); });
  parts.answer = [&] { return pointers_[loop.answer]; };
  parts.body = on([&]() -> Result<void> {
    STRATA_CHECK(run_body(loop, state.first, state.second));
    return loop.alternates || loop.once ? Result<void>() : settle(loop, state);
  });
  if (loop.alternates) {
    parts.back = on([&] { return run_body(loop, state.second, state.first); });
    parts.settle = on([&] { return settle(loop, state); });
  }
  const Result<void> added = loops_->add_loop(stream_, parts);
  overlap_ = overlap;
  return added;
}

Result<void> StepRunner::run_asking(const LoadedLoop& loop) {
  STRATA_TRY(const LoopState state, begin_asking(loop));
  if (loops_ != nullptr && !loop.host_takes_part) {
    STRATA_TRY(const bool recorded, loops_->is_recorded(stream_));
    if (recorded) return add_asking(loop, state);
    // Where values lie elsewhere each time, recording takes longer than asking.
    if (counted_ == 0 && loops_->refusal().empty()) {
      LoopGraphs::Key key{&loop, pointers_};
      key.second.insert(key.second.end(), {workspace_, CudaPointer{overlap_}});
      const Result<void> launched =
          loops_->launch(stream_, std::move(key), [&](CudaStream) { return add_asking(loop, state); });
      behind_kernel_ = false;
      if (launched) return {};
      if (loops_->refusal().empty()) return launched;  // the loop may have begun
    }
  }
  for (bool odd = false;; odd = !odd) {
    STRATA_TRY(const bool more, goes_on(loop));
    if (!more) return odd ? settle(loop, state) : Result<void>();
    if (loop.once) return run_body(loop, state.first, state.second);
    STRATA_CHECK(odd ? run_body(loop, state.second, state.first) : run_body(loop, state.first, state.second));
  }
}

}  // namespace strata
