#include "runtime/memory_layout.h"

#include <algorithm>
#include <map>

#include "support/memory_plan.h"

namespace strata {
namespace {

/// Buffers for which a plan is searched to the end; more are placed by first fit.
constexpr int64_t kPlanNodes = 20'000;
constexpr int64_t kNever = -1;

int64_t aligned(int64_t bytes) { return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment; }

/// The times at which buffers are used: steps are numbered in order, a loop having one number before its steps and one
/// after them.
class Lifetimes {
 public:
  Lifetimes(const LaunchManifest& manifest, std::vector<size_t> roots)
      : roots_(std::move(roots)), first(manifest.buffers.size(), kNever), last(manifest.buffers.size(), kNever) {
    for (size_t i = 0; i < manifest.buffers.size(); ++i) numbers_[manifest.buffers[i].name] = i;
    visit(manifest.steps);
    extend();
  }

  void use(const std::string& name) {
    const auto number = numbers_.find(name);
    if (number == numbers_.end()) return;
    const size_t root = roots_[number->second];
    if (first[root] == kNever) first[root] = time_;
    last[root] = time_;
  }

  int64_t end() const { return time_; }

 private:
  void visit(const std::vector<GpuStep>& steps) {
    for (const GpuStep& step : steps) {
      if (const GpuLoop* loop = step.loop()) {
        const int64_t begin = time_;
        use_all(*loop);
        ++time_;
        visit(loop->condition);
        visit(loop->body);
        use_all(*loop);
        loops_.emplace_back(begin, time_);
      } else if (const GpuLaunch* launch = step.launch()) {
        for (const std::string& name : launch->arguments) use(name);
      } else if (const auto* copy = std::get_if<GpuCopy>(&step.work)) {
        use(copy->from);
        use(copy->to);
      } else if (const auto* fill = std::get_if<GpuFill>(&step.work)) {
        use(fill->to);
      } else {
        for (const std::string& name : step.host()->arguments) use(name);
      }
      // What is prepared for a part's kernels, and what they hand each other, lives with the part.
      ++time_;
    }
  }

  void use_all(const GpuLoop& loop) {
    for (const GpuLoop::Value& value : loop.values) {
      for (const std::string* name : {&value.initial, &value.result, &value.next, &value.counted, &value.spare})
        use(*name);
    }
    for (const std::string& name : loop.scratch) use(name);
    use(loop.answer);
  }

  /// What a loop shares with steps outside of it lives through all its iterations.
  void extend() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [begin, end] : loops_) {
        for (size_t i = 0; i < first.size(); ++i) {
          const bool inside = first[i] >= begin && last[i] <= end;
          const bool apart = first[i] == kNever || last[i] < begin || first[i] > end;
          if (inside || apart || (first[i] <= begin && last[i] >= end)) continue;
          first[i] = std::min(first[i], begin);
          last[i] = std::max(last[i], end);
          changed = true;
        }
      }
    }
  }

  std::map<std::string, size_t> numbers_;
  std::vector<size_t> roots_;
  std::vector<std::pair<int64_t, int64_t>> loops_;
  int64_t time_ = 0;

 public:
  std::vector<int64_t> first, last;  ///< by buffer; kNever where nothing uses it
};

}  // namespace

Result<std::vector<size_t>> memory_roots(const LaunchManifest& manifest) {
  std::map<std::string, size_t> numbers;
  for (size_t i = 0; i < manifest.buffers.size(); ++i) {
    if (!numbers.emplace(manifest.buffers[i].name, i).second)
      return invalid("there are two buffers '{}'", manifest.buffers[i].name);
  }
  std::vector<size_t> roots;
  for (size_t i = 0; i < manifest.buffers.size(); ++i) {
    size_t at = i;
    for (size_t steps = 0; !manifest.buffers[at].lies_in.empty(); ++steps) {
      const GpuBuffer& buffer = manifest.buffers[at];
      const auto in = numbers.find(buffer.lies_in);
      if (in == numbers.end())
        return invalid("buffer '{}' lies in '{}', which is no buffer", buffer.name, buffer.lies_in);
      if (steps > manifest.buffers.size()) return invalid("buffer '{}' lies in itself", manifest.buffers[i].name);
      if (manifest.buffers[in->second].type.bytes() < buffer.type.bytes())
        return invalid("buffer '{}' lies in '{}', which is smaller", buffer.name, buffer.lies_in);
      at = in->second;
    }
    roots.push_back(at);
  }
  return roots;
}

void place_buffers(LaunchManifest& manifest, bool outputs) {
  const Result<std::vector<size_t>> known = memory_roots(manifest);
  if (!known) return;  // nothing that runs: loading it says why
  const std::vector<size_t>& roots = *known;
  Lifetimes lives(manifest, roots);
  const auto has_place = [&](const GpuBuffer& buffer) {
    return buffer.lies_in.empty() &&
           (buffer.role == BufferRole::Intermediate || (outputs && buffer.role == BufferRole::Output));
  };
  for (const auto& [name, buffer] : manifest.results) lives.use(buffer);
  for (const GpuBuffer& buffer : manifest.buffers) {
    if (buffer.role == BufferRole::Output) lives.use(buffer.name);
  }
  std::vector<LiveTensor> shared;
  std::vector<size_t> places;
  int64_t constants = 0;
  for (size_t i = 0; i < manifest.buffers.size(); ++i) {
    GpuBuffer& buffer = manifest.buffers[i];
    const int64_t bytes = aligned(buffer.type.bytes());
    if (buffer.role == BufferRole::Constant) {
      buffer.offset = constants;
      constants += bytes;
    } else if (has_place(buffer)) {
      buffer.offset = 0;
      if (lives.first[i] == kNever) continue;
      places.push_back(i);
      shared.push_back({bytes, lives.first[i], lives.last[i], kBufferAlignment});
    }
  }
  const MemoryPlan plan = plan_memory(shared, kPlanNodes);
  for (size_t i = 0; i < places.size(); ++i) manifest.buffers[places[i]].offset = plan.offsets[i];
}

MemoryLayout layout_of(const LaunchManifest& manifest) {
  MemoryLayout layout;
  for (const GpuBuffer& buffer : manifest.buffers) {
    const int64_t bytes = aligned(buffer.type.bytes());
    if (buffer.role == BufferRole::Input) layout.input_bytes += bytes;
    if (!buffer.offset) continue;
    if (buffer.role == BufferRole::Constant) {
      layout.constant_bytes = std::max(layout.constant_bytes, *buffer.offset + bytes);
    } else {
      layout.working_bytes = std::max(layout.working_bytes, *buffer.offset + bytes);
      layout.separate_bytes += bytes;
    }
  }
  return layout;
}

std::string describe(const MemoryLayout& layout) {
  return fmt::format("{} bytes of working memory, {} in buffers of their own", layout.working_bytes,
                     layout.separate_bytes);
}

}  // namespace strata
