#include "runtime/gpu_steps.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace strata {
namespace {

/// Above it a kernel must ask for its dynamic shared memory.
constexpr int64_t kGrantedSharedBytes = 48 << 10;

/// The map as a kernel takes it, of a tensor that begins at `base`.
Result<CudaTensorMap> encode(const CudaDriver& driver, const GpuTensorMap& map, CudaPointer base) {
  CudaTensorMap made;
  const int swizzle = map.swizzle == 128 ? 3 : map.swizzle == 64 ? 2 : map.swizzle == 32 ? 1 : 0;
  const std::vector<uint64_t> sizes(map.sizes.begin(), map.sizes.end());
  std::vector<uint64_t> strides(map.strides.begin() + 1, map.strides.end());
  if (strides.empty()) strides.assign(1, 0);  // tensors of one dimension have none, but the driver wants an array
  const std::vector<uint32_t> box(map.box.begin(), map.box.end());
  const std::vector<uint32_t> every_element(box.size(), 1);
  const int status = driver.encode_tensor_map(
      &made, map.element_bytes == 4 ? CudaDriver::kElements32 : CudaDriver::kElements16,
      static_cast<unsigned>(sizes.size()), reinterpret_cast<void*>(base), sizes.data(), strides.data(), box.data(),
      every_element.data(), 0, swizzle, CudaDriver::kPromote256, 0);
  STRATA_CHECK(driver.check(status, "describing a tensor to TMA"));
  return made;
}

/// Of a copy: from, to; of a fill: to; none of a loop.
std::vector<std::string> arguments_of(const GpuStep& step) {
  if (const GpuLaunch* launch = step.launch()) return launch->arguments;
  if (const HostStep* host = step.host()) return host->arguments;
  std::vector<std::string> names;
  if (const auto* copy = std::get_if<GpuCopy>(&step.work)) {
    names.push_back(copy->from);
    names.push_back(copy->to);
  }
  if (const auto* fill = std::get_if<GpuFill>(&step.work)) names.push_back(fill->to);
  return names;
}

bool host_takes_part(const GpuStep& step) {
  const GpuLaunch* launch = step.launch();
  return step.host() != nullptr || (launch != nullptr && launch->library && waits_on_host(*launch->library));
}

template <class Word>
Word word_at(const std::string& pattern, size_t at) {
  Word word = 0;
  std::memcpy(&word, pattern.data() + at, sizeof word);
  return word;
}

}  // namespace

LoadedModules::~LoadedModules() {
  for (const auto& [name, module] : modules_) driver_.unload_module(module);
}

Result<void> LoadedModules::load(const std::string& name, const std::string& image) {
  CudaModule module = nullptr;
  // The driver wants PTX to end with 0, as c_str() does.
  STRATA_CHECK(driver_.check(driver_.load_module(&module, image.c_str()),
                             name.empty() ? "loading the cubin" : fmt::format("loading '{}'", name)));
  modules_[name] = module;
  return {};
}

Result<CudaFunction> LoadedModules::find(const GpuLaunch& launch) const {
  const auto module = modules_.find(launch.module);
  if (module == modules_.end())
    return invalid("kernel '{}' needs the module '{}', which is missing", launch.kernel, launch.module);
  CudaFunction function = nullptr;
  STRATA_CHECK(driver_.check(driver_.get_function(&function, module->second, launch.kernel.c_str()),
                             fmt::format("finding kernel '{}'", launch.kernel)));
  if (launch.shared_bytes > kGrantedSharedBytes) {
    const int status = driver_.set_function_attribute(function, CudaDriver::kMostDynamicSharedBytes,
                                                      static_cast<int>(launch.shared_bytes));
    STRATA_CHECK(driver_.check(
        status, fmt::format("{} bytes of shared memory for kernel '{}'", launch.shared_bytes, launch.kernel)));
  }
  return function;
}

LoadedStep::LoadedStep(LoadedStep&&) noexcept = default;
LoadedStep& LoadedStep::operator=(LoadedStep&&) noexcept = default;
LoadedStep::~LoadedStep() = default;

StepLoader::StepLoader(const GpuDevice& device, const LaunchManifest& manifest, const LoadedModules& modules,
                       const std::map<std::string, std::shared_ptr<PreparedWork>>& prepared)
    : device_(device), manifest_(manifest), modules_(modules), prepared_(prepared) {
  for (size_t i = 0; i < manifest.buffers.size(); ++i) numbers_[manifest.buffers[i].name] = i;
}

Result<size_t> StepLoader::number(const std::string& buffer) const {
  const auto found = numbers_.find(buffer);
  if (found == numbers_.end()) return invalid("a step names '{}', which is no buffer", buffer);
  return found->second;
}

Result<size_t> StepLoader::number_or_none(const std::string& buffer) const {
  if (buffer.empty()) return LoadedLoop::kNone;
  return number(buffer);
}

Result<std::vector<LoadedStep>> StepLoader::load(std::vector<GpuStep>& steps) {
  std::vector<LoadedStep> all;
  for (GpuStep& step : steps) {
    LoadedStep& made = all.emplace_back();
    made.step = &step;
    if (GpuLaunch* launch = step.launch()) STRATA_CHECK(load_launch(*launch, made));
    if (GpuLoop* loop = step.loop()) {
      made.loop = std::make_unique<LoadedLoop>();
      STRATA_CHECK(load_loop(*loop, *made.loop));
    }
    for (const std::string& name : arguments_of(step)) {
      STRATA_TRY(const size_t argument, number(name));
      made.arguments.push_back(argument);
    }
    if (step.launch() != nullptr || step.host() != nullptr || made.loop) continue;
    made.bytes = bytes_of(made.arguments.back());
    if (bytes_of(made.arguments.front()) < made.bytes)
      return invalid("'{}' is to be copied from an array that is smaller", arguments_of(step).back());
    const auto* fill = std::get_if<GpuFill>(&step.work);
    if (fill != nullptr && made.bytes % static_cast<int64_t>(fill->pattern.size()) != 0)
      return invalid("'{}' is filled with a pattern that does not divide it", fill->to);
  }
  return all;
}

Result<void> StepLoader::load_launch(GpuLaunch& launch, LoadedStep& made) {
  if (!launch.library) {
    STRATA_TRY(made.function, modules_.find(launch));
    return {};
  }
  const auto known = prepared_.find(identity_of(*launch.library));
  if (known != prepared_.end()) {
    made.work = known->second;
    return {};
  }
  STRATA_TRY(made.work, device_.prepare(*launch.library));
  return {};
}

Result<void> StepLoader::load_values(const GpuLoop& loop, LoadedLoop& made) const {
  for (const GpuLoop::Value& value : loop.values) {
    LoadedLoop::Value& it = made.values.emplace_back();
    STRATA_TRY(it.initial, number(value.initial));
    STRATA_TRY(it.next, number(value.next));
    STRATA_TRY(it.result, number_or_none(value.result));
    STRATA_TRY(it.counted, number_or_none(value.counted));
    STRATA_TRY(it.spare, number_or_none(value.spare));
    for (const std::string& name : value.current) {
      STRATA_TRY(const size_t current, number(name));
      if (!is_carried(current)) return invalid("a loop hands on '{}', which has a place of its own", name);
      it.current.push_back(current);
    }
    it.bytes = bytes_of(it.initial);
    it.over = value.over;
    for (const size_t other : {it.result, it.next, it.spare}) {
      if (other != LoadedLoop::kNone && bytes_of(other) != it.bytes)
        return invalid("a loop's '{}' and '{}' are of different sizes", value.initial, manifest_.buffers[other].name);
    }
    if (value.over >= std::ssize(loop.values)) return invalid("a loop has no value {}", value.over);
  }
  std::set<size_t> current;
  for (const LoadedLoop::Value& value : made.values) current.insert(value.current.begin(), value.current.end());
  for (LoadedLoop::Value& value : made.values) {
    value.moves = is_carried(value.next) && current.count(value.next) > 0;
    value.writes = is_carried(value.next) && !value.moves;
    value.changes =
        value.counted != LoadedLoop::kNone || std::count(value.current.begin(), value.current.end(), value.next) == 0;
    const bool fixed = !is_carried(value.next) && manifest_.buffers[value.next].role != BufferRole::Constant;
    if (fixed)
      return invalid("a loop's next value '{}' does not lie where the loop says", manifest_.buffers[value.next].name);
  }
  return {};
}

Result<void> StepLoader::load_loop(GpuLoop& loop, LoadedLoop& made) {
  STRATA_CHECK(load_values(loop, made));
  for (const std::string& name : loop.scratch) {
    STRATA_TRY(const size_t scratch, number(name));
    made.scratch.push_back(scratch);
  }
  if (loop.count) {
    STRATA_CHECK(plan_counted(loop, made));
  } else {
    STRATA_TRY(made.answer, number(loop.answer));
    if (bytes_of(made.answer) != 1) return invalid("the answer '{}' of a loop's condition is no pred", loop.answer);
    for (const LoadedLoop::Value& value : made.values) {
      const bool has_room = value.result != LoadedLoop::kNone && (loop.once || value.spare != LoadedLoop::kNone);
      if (value.changes && !has_room)
        return invalid("a loop has no room for values of '{}'", manifest_.buffers[value.initial].name);
    }
    STRATA_TRY(made.condition, load(loop.condition));
    made.once = loop.once;
    made.alternates = !loop.once && asking_depth(loop.body) == 0;
  }
  STRATA_TRY(made.body, load(loop.body));
  for (const std::vector<LoadedStep>* part : {&made.body, &made.condition}) {
    for (const LoadedStep& step : *part) {
      if (host_takes_part(*step.step) || (step.loop && step.loop->host_takes_part)) made.host_takes_part = true;
    }
  }
  return {};
}

Result<void> StepLoader::plan_counted(const GpuLoop& loop, LoadedLoop& made) const {
  STRATA_TRY(const LoopFlow flow, flow_of(manifest_, loop));
  made.places = plan_loop_buffers(flow);
  if (made.places.scratch_bytes.size() > made.scratch.size()) return invalid("a loop has too little scratch memory");
  for (size_t i = 0; i < made.places.scratch_bytes.size(); ++i) {
    if (bytes_of(made.scratch[i]) < made.places.scratch_bytes[i])
      return invalid("a loop has too little scratch memory");
  }
  for (const LoadedLoop::Value& value : made.values) {
    if (value.counted != LoadedLoop::kNone && bytes_of(value.counted) != (*loop.count + 1) * value.bytes)
      return invalid("a loop of {} iterations has other counters", *loop.count);
  }
  return {};
}

StepRunner::StepRunner(const GpuDevice& device, CudaStream stream, std::vector<CudaPointer> pointers,
                       const std::vector<size_t>& roots, CudaPointer workspace, bool overlap, bool behind_kernel,
                       LoopGraphs* loops)
    : device_(device),
      pointers_(std::move(pointers)),
      workspace_(workspace),
      overlap_(overlap),
      behind_kernel_(behind_kernel),
      loops_(loops),
      stream_(stream) {
  for (size_t i = 0; i < roots.size(); ++i) {
    if (roots[i] != i && pointers_[roots[i]] == 0) lying_in_[roots[i]].push_back(i);
  }
}

Result<void> StepRunner::run(const std::vector<LoadedStep>& steps) {
  for (const LoadedStep& step : steps) STRATA_CHECK(run(step));
  return {};
}

Result<void> StepRunner::run(const LoadedStep& step) {
  if (const GpuLaunch* of = step.step->launch()) return launch(*of, step);
  if (step.loop) {
    const auto& count = step.step->loop()->count;
    return count ? run_counted(*step.loop, *count) : run_asking(*step.loop);
  }
  std::vector<CudaPointer> pointers;
  for (const size_t argument : step.arguments) pointers.push_back(pointers_[argument]);
  if (const HostStep* host = step.step->host()) {
    behind_kernel_ = false;
    return host->run(pointers);
  }
  if (const auto* of = std::get_if<GpuFill>(&step.step->work)) return fill(*of, pointers.front(), step.bytes);
  return copy(pointers.back(), pointers.front(), step.bytes);
}

Result<void> StepRunner::launch(const GpuLaunch& launch, const LoadedStep& step) {
  std::vector<CudaPointer> pointers;
  for (const size_t argument : step.arguments) pointers.push_back(pointers_[argument]);
  if (step.work) {
    behind_kernel_ = false;
    return step.work->run(stream_, pointers, workspace_);
  }
  std::vector<void*> arguments;
  for (CudaPointer& pointer : pointers) arguments.push_back(&pointer);
  std::vector<CudaTensorMap> maps;
  for (const GpuTensorMap& map : launch.tensor_maps) {
    STRATA_TRY(const CudaTensorMap made, encode(device_.driver(), map, pointers[map.argument]));
    maps.push_back(made);
  }
  for (CudaTensorMap& map : maps) arguments.push_back(&map);
  std::array<CudaLaunchAttribute, 3> attributes{};
  CudaLaunchConfig config;
  for (size_t d = 0; d < 3; ++d) config.grid[d] = static_cast<unsigned>(launch.grid[d]);
  if (launch.fewer_blocks) {
    STRATA_TRY(const int most, device_.attribute(CudaDriver::kMultiprocessors, "multiprocessors"));
    config.grid[0] = std::min(config.grid[0], static_cast<unsigned>(most));
  }
  config.block[0] = static_cast<unsigned>(launch.threads);
  config.shared_bytes = static_cast<unsigned>(launch.shared_bytes);
  config.stream = stream_;
  config.attributes = attributes.data();
  if (launch.cluster > 1) {  // GPUs without clusters refuse the attribute
    CudaLaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = CudaLaunchAttribute::kClusterDimension;
    attribute.value = {static_cast<unsigned>(launch.cluster), 1, 1};
  }
  if (launch.resident) {
    CudaLaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = CudaLaunchAttribute::kCooperative;
    attribute.value = {1};
  }
  if (launch.overlaps_previous && overlap_ && behind_kernel_) {
    CudaLaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = CudaLaunchAttribute::kOverlapsPrevious;
    attribute.value = {1};
  }
  behind_kernel_ = true;
  return device_.driver().check(device_.driver().launch(&config, step.function, arguments.data(), nullptr),
                                fmt::format("launching '{}'", launch.kernel));
}

Result<void> StepRunner::fill(const GpuFill& fill, CudaPointer to, int64_t count) {
  if (count == 0) return {};
  behind_kernel_ = false;
  const CudaDriver& driver = device_.driver();
  const std::string& pattern = fill.pattern;
  const size_t width = pattern.size();
  const auto bytes = static_cast<size_t>(count);
  bool same_words = width % 4 == 0;
  for (size_t at = 4; at < width && same_words; at += 4)
    same_words = word_at<unsigned>(pattern, at) == word_at<unsigned>(pattern, 0);
  int status = 0;
  if (width == 1) {
    status = driver.fill_bytes_later(to, word_at<unsigned char>(pattern, 0), bytes, stream_);
  } else if (width == 2) {
    status = driver.fill_halves_later(to, word_at<unsigned short>(pattern, 0), bytes / 2, stream_);
  } else if (same_words) {
    status = driver.fill_words_later(to, word_at<unsigned>(pattern, 0), bytes / 4, stream_);
  } else {
    for (size_t at = 0; at < width && status == 0; at += 4)
      status = driver.fill_rows_later(to + at, width, word_at<unsigned>(pattern, at), 1, bytes / width, stream_);
  }
  return driver.check(status, fmt::format("filling '{}'", fill.to));
}

Result<void> StepRunner::copy(CudaPointer to, CudaPointer from, int64_t bytes) {
  if (to == from || bytes == 0) return {};
  behind_kernel_ = false;
  const CudaDriver& driver = device_.driver();
  return driver.check(driver.copy_on_device_later(to, from, static_cast<size_t>(bytes), stream_), "copying");
}

std::optional<std::string> step_on_host(const std::vector<GpuStep>& steps, bool device_asks) {
  std::optional<std::string> found;
  for_each_step(steps, [&](const GpuStep& step) {
    if (found) return;
    if (host_takes_part(step))
      found = fmt::format("{} {} the host", name_of(step), step.host() != nullptr ? "runs on" : "waits on");
    if (!device_asks && step.loop() != nullptr && !step.loop()->count)
      found = "the condition of a loop is read on the host";
  });
  return found;
}

int asking_depth(const std::vector<GpuStep>& steps) {
  int deepest = 0;
  for (const GpuStep& step : steps) {
    const GpuLoop* loop = step.loop();
    if (loop == nullptr) continue;
    const int inner = std::max(asking_depth(loop->body), asking_depth(loop->condition));
    deepest = std::max(deepest, inner + (loop->count ? 0 : 1));
  }
  return deepest;
}

}  // namespace strata
