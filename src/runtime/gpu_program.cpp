#include "runtime/gpu_program.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <set>

#include "runtime/launch_accesses.h"
#include "runtime/memory_layout.h"
#include "runtime/replay.h"

namespace strata {
namespace {

constexpr int64_t kMostSets = 64;
constexpr double kTimesL2 = 4;
/// The share of the free memory that buffers may take.
constexpr double kMemoryShare = 0.8;

/// Those of equal names next to each other are one part.
std::vector<std::pair<size_t, size_t>> parts_of(const std::vector<GpuStep>& steps) {
  std::vector<std::pair<size_t, size_t>> parts;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool same = i > 0 && !steps[i].part.empty() && steps[i].part == steps[i - 1].part;
    if (!same) parts.emplace_back(i, i);
    parts.back().second = i + 1;
  }
  return parts;
}

std::string what_of(const GpuStep& step) {
  const GpuLaunch* launch = step.launch();
  if (!step.what.empty() || launch == nullptr || !launch->library) return step.what;
  return fmt::format("{} {}", library_of(*launch->library), describe(*launch->library));
}

/// All carried buffers lie where a loop says.
Result<void> check_carried(const LaunchManifest& manifest, const std::vector<size_t>& roots) {
  std::set<std::string> bound;
  for_each_step(manifest.steps, [&](const GpuStep& step) {
    if (step.loop() == nullptr) return;
    for (const GpuLoop::Value& value : step.loop()->values) {
      bound.insert(value.current.begin(), value.current.end());
      bound.insert(value.next);
    }
  });
  for (const size_t root : roots) {
    const GpuBuffer& buffer = manifest.buffers[root];
    if (buffer.role == BufferRole::Carried && bound.count(buffer.name) == 0)
      return invalid("no loop says where '{}' lies", buffer.name);
  }
  return {};
}

}  // namespace

GpuArray GpuBuffers::at(const std::string& buffer) const {
  const std::vector<GpuBuffer>& all = program_->manifest_.buffers;
  const auto found = std::find_if(all.begin(), all.end(), [&](const GpuBuffer& one) { return one.name == buffer; });
  assert(found != all.end() && "a buffer of the manifest");
  return {program_->device_, pointers_[static_cast<size_t>(found - all.begin())], found->type.bytes()};
}

Result<std::unique_ptr<GpuProgram>> GpuProgram::load(const GpuDevice& device, const std::string& cubin,
                                                     LaunchManifest manifest) {
  return load(device, ProgramImage{std::move(manifest), {{"", cubin}}});
}

Result<std::unique_ptr<GpuProgram>> GpuProgram::load(const GpuDevice& device, ProgramImage image) {
  std::unique_ptr<GpuProgram> made(new GpuProgram(device, std::move(image.manifest)));
  STRATA_CHECK(made->load(std::move(image)));
  return made;
}

Result<void> GpuProgram::load(ProgramImage image) {
  STRATA_TRY(roots_, memory_roots(manifest_));
  STRATA_CHECK(check_accesses(manifest_));
  constants_ = std::move(image.constants);
  for (const GpuBuffer& buffer : manifest_.buffers) {
    if (buffer.role != BufferRole::Constant) continue;
    if (!buffer.offset || *buffer.offset + buffer.type.bytes() > std::ssize(constants_))
      return invalid("the constant '{}' lies beyond the {} bytes of all constants", buffer.name, constants_.size());
  }
  std::set<std::string> wanted;
  for_each_step(manifest_.steps, [&](const GpuStep& step) {
    if (const GpuLaunch* launch = step.launch(); launch != nullptr && !launch->library) wanted.insert(launch->module);
  });
  for (const auto& [name, module] : image.modules) {
    if (wanted.count(name) > 0) STRATA_CHECK(modules_.load(name, module));
  }
  STRATA_TRY(steps_, StepLoader(device_, manifest_, modules_, image.prepared).load(manifest_.steps));
  STRATA_CHECK(check_carried(manifest_, roots_));
  if (const int depth = asking_depth(manifest_.steps); depth > 0) {
    // Without it the host asks, and step_on_host() says so.
    if (auto loops = LoopGraphs::open(device_, depth)) loops_ = *std::move(loops);
  }
  return allocate_workspace();
}

GpuProgram::~GpuProgram() = default;

namespace {

/// Calls `visit` for each loaded step, those of loops too.
void for_each(std::vector<LoadedStep>& steps, const std::function<void(LoadedStep&)>& visit) {
  for (LoadedStep& step : steps) {
    visit(step);
    if (!step.loop) continue;
    for_each(step.loop->condition, visit);
    for_each(step.loop->body, visit);
  }
}

}  // namespace

Result<void> GpuProgram::allocate_workspace() {
  if (loops_) loops_->forget();  // what they do may have changed
  int64_t bytes = 0;
  for_each(steps_, [&](const LoadedStep& step) {
    if (step.work) bytes = std::max(bytes, step.work->workspace_bytes());
  });
  workspace_.reset();
  if (bytes == 0) return {};
  STRATA_TRY(workspace_, GpuMemory::allocate(device_, bytes));
  return workspace_->poison();
}

Result<GpuBuffers> GpuProgram::allocate(const std::set<size_t>& without) const {
  GpuBuffers made;
  made.program_ = this;
  made.pointers_.assign(manifest_.buffers.size(), 0);
  const auto take = [&](int64_t bytes) -> Result<GpuMemory*> {
    STRATA_TRY(GpuMemory memory, GpuMemory::allocate(device_, bytes));
    STRATA_CHECK(memory.poison());
    return &made.memory_.emplace_back(std::move(memory));
  };
  const MemoryLayout layout = layout_of(manifest_);
  CudaPointer working = 0;
  CudaPointer constants = 0;
  if (layout.working_bytes > 0) {
    STRATA_TRY(const GpuMemory* memory, take(layout.working_bytes));
    working = memory->pointer();
  }
  if (layout.constant_bytes > 0) {
    STRATA_TRY(const GpuMemory* memory, take(layout.constant_bytes));
    constants = memory->pointer();
    STRATA_CHECK(memory->upload(std::string_view(constants_).substr(0, static_cast<size_t>(layout.constant_bytes))));
  }
  for (size_t i = 0; i < manifest_.buffers.size(); ++i) {
    const GpuBuffer& buffer = manifest_.buffers[i];
    if (roots_[i] != i || buffer.role == BufferRole::Carried || without.count(i) > 0) continue;
    if (buffer.offset) {
      const CudaPointer region = buffer.role == BufferRole::Constant ? constants : working;
      made.pointers_[i] = region + static_cast<CudaPointer>(*buffer.offset);
      continue;
    }
    STRATA_TRY(const GpuMemory* memory, take(buffer.type.bytes()));
    made.pointers_[i] = memory->pointer();
    if (buffer.role == BufferRole::Counters) STRATA_CHECK(memory->clear());
  }
  for (size_t i = 0; i < roots_.size(); ++i) made.pointers_[i] = made.pointers_[roots_[i]];
  return made;
}

StepRunner GpuProgram::runner(std::vector<CudaPointer> pointers, CudaStream stream) const {
  return {device_,
          stream,
          std::move(pointers),
          roots_,
          workspace_ ? workspace_->pointer() : 0,
          overlap_,
          manifest_.runs_overlap,
          loops_.get()};
}

Result<void> GpuProgram::launch(const GpuBuffers& buffers) const {
  return runner(buffers.pointers(), device_.stream()).run(steps_);
}

Result<void> GpuProgram::launch(std::vector<CudaPointer> pointers, CudaStream stream) const {
  StepRunner run = runner(std::move(pointers), stream);
  run.stand_alone();  // what is on the caller's stream before is unknown
  return run.run(steps_);
}

Result<int64_t> GpuProgram::cold_sets() const {
  const MemoryLayout layout = layout_of(manifest_);
  int64_t own = 0;  // what has memory of its own and is no input
  for (size_t i = 0; i < roots_.size(); ++i) {
    const GpuBuffer& buffer = manifest_.buffers[i];
    const bool counts = buffer.role == BufferRole::Intermediate || buffer.role == BufferRole::Output;
    if (roots_[i] == i && !buffer.offset && counts) own += buffer.type.bytes();
  }
  const auto inputs = static_cast<double>(std::max<int64_t>(1, manifest_.bytes(BufferRole::Input)));
  const auto rest = static_cast<double>(own + layout.working_bytes + layout.constant_bytes);
  const double wanted = std::ceil(kTimesL2 * static_cast<double>(device_.l2_bytes()) / inputs);
  STRATA_TRY(const int64_t free, device_.free_bytes());
  const double fitting = std::floor(kMemoryShare * static_cast<double>(free) / (inputs + rest));
  return std::max<int64_t>(1, static_cast<int64_t>(std::min(std::clamp<double>(wanted, 2, kMostSets), fitting)));
}

std::optional<std::string> GpuProgram::step_on_host() const {
  const bool refused = loops_ != nullptr && !loops_->refusal().empty();
  const auto found = strata::step_on_host(manifest_.steps, loops_ != nullptr && !refused);
  return found && refused ? fmt::format("{} ({})", *found, loops_->refusal()) : found;
}

Result<double> GpuProgram::microseconds(std::span<const GpuBuffers> sets) const {
  if (const auto host = step_on_host()) return unsupported("{}", *host);
  return replayed_microseconds(device_, std::ssize(sets), [&](int64_t set) -> Result<void> {
    STRATA_CHECK(launch(sets[static_cast<size_t>(set)]));
    // The first run, which is not recorded yet, shows whether the driver takes the loops.
    if (loops_ && !loops_->refusal().empty()) return unsupported("{}", step_on_host().value_or(loops_->refusal()));
    return {};
  });
}

Result<std::vector<GpuProgram::PartTime>> GpuProgram::profile(const GpuBuffers& buffers, int repetitions) const {
  const auto parts = parts_of(manifest_.steps);
  const size_t count = parts.size();
  std::vector<std::vector<double>> times(count + 1);
  for (int i = 0; i < repetitions; ++i) {
    std::vector<GpuEvent> events;
    for (size_t part = 0; part <= count; ++part) events.emplace_back(device_);
    StepRunner run = runner(buffers.pointers(), device_.stream());
    for (size_t part = 0; part < count; ++part) {
      STRATA_CHECK(events[part].record());
      run.stand_alone();
      for (size_t step = parts[part].first; step < parts[part].second; ++step) STRATA_CHECK(run.run(steps_[step]));
    }
    STRATA_CHECK(events[count].record());
    for (size_t part = 0; part < count; ++part) {
      STRATA_TRY(const double time, events[part].microseconds_until(events[part + 1]));
      times[part].push_back(time);
    }
    STRATA_TRY(const double all, events[0].microseconds_until(events[count]));
    times[count].push_back(all);
  }
  std::vector<PartTime> result;
  for (size_t part = 0; part <= count; ++part) {
    std::vector<double>& of = times[part];
    std::nth_element(of.begin(), of.begin() + std::ssize(of) / 2, of.end());
    const GpuStep* step = part < count ? &manifest_.steps[parts[part].first] : nullptr;
    result.push_back(
        {step != nullptr ? name_of(*step) : "all", step != nullptr ? what_of(*step) : "", of[of.size() / 2]});
  }
  return result;
}

bool GpuProgram::may_overlap() const {
  bool found = false;
  for_each_step(manifest_.steps, [&](const GpuStep& step) {
    found = found || (step.launch() != nullptr && step.launch()->overlaps_previous);
  });
  return found;
}

Result<void> GpuProgram::choose_work(
    const std::function<Result<std::optional<Chosen>>(const GpuStep& step, const std::vector<int64_t>& argument_bytes)>&
        choose) {
  Result<void> all;
  for_each(steps_, [&](LoadedStep& step) {
    if (!step.work || !all) return;
    std::vector<int64_t> bytes;
    for (const size_t argument : step.arguments) bytes.push_back(manifest_.buffers[argument].type.bytes());
    GpuLaunch& launch = *step.step->launch();
    auto chosen = choose(*step.step, bytes);
    if (!chosen) all = tl::unexpected(chosen.error());
    if (!chosen || !*chosen) return;
    launch.library = std::move((*chosen)->first);
    step.work = std::move((*chosen)->second);
  });
  STRATA_CHECK(all);
  return allocate_workspace();
}

}  // namespace strata
