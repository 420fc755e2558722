#include "emitters/gpu_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>

#include "emitters/buffers.h"
#include "emitters/gpu_loop.h"
#include "emitters/library/fastest.h"
#include "hlo/evaluate.h"
#include "hlo/inline_calls.h"
#include "machine/target.h"
#include "runtime/launch_manifest.h"
#include "runtime/nv_jit_link.h"
#include "runtime/replay.h"
#include "support/memory_plan.h"

namespace strata::emitters {
namespace {

constexpr int64_t kAlignment = 256;
/// Above it a kernel must ask for its dynamic shared memory.
constexpr int64_t kGrantedSharedBytes = 48 << 10;
/// Buffers for which a plan is searched to the end; more are placed by first fit.
constexpr int64_t kPlanNodes = 20'000;

int64_t bytes_of(const hlo::Shape& shape) {
  return shape.is_array() ? shape.element_count() * hlo::byte_width(shape.type) : 0;
}

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool is_given(const ProgramBuffer& buffer) { return buffer.parameter >= 0 || buffer.constant; }

/// The value of parameter buffers among the arguments.
Result<hlo::Literal> argument_of(const ProgramBuffer& buffer, std::span<const hlo::Literal> arguments) {
  if (static_cast<size_t>(buffer.parameter) >= arguments.size())
    return invalid("there are {} arguments; the program has a parameter {}", arguments.size(), buffer.parameter);
  const hlo::Literal& whole = arguments[static_cast<size_t>(buffer.parameter)];
  const hlo::Literal& one = buffer.element < 0 ? whole : hlo::leaf_of(whole, buffer.element);
  if (hlo::same_shape(one.shape(), buffer.shape)) return one;
  return invalid("argument {} is {}, not {}", buffer.parameter, hlo::to_string(one.shape()),
                 hlo::to_string(buffer.shape));
}

}  // namespace

class GpuRunner::Modules {
 public:
  explicit Modules(const CudaDriver& driver) : driver_(driver) {}
  ~Modules() {
    for (CudaModule module : loaded_) driver_.unload_module(module);
  }
  void add(CudaModule module) { loaded_.push_back(module); }

 private:
  const CudaDriver& driver_;
  std::vector<CudaModule> loaded_;
};

Result<std::string> cubin_of(const EmittedFusion& fusion, const std::string& arch) {
  STRATA_TRY(const std::string ptx, fusion.text(Form::Ptx));
  STRATA_TRY(const std::vector<char> cubin, link_ptx(ptx, arch));
  return std::string(cubin.begin(), cubin.end());
}

MemoryLayout lay_out(const EmittedProgram& program, const std::vector<bool>& elsewhere) {
  constexpr int64_t kNever = -1;
  const auto count = program.buffers.size();
  std::vector<int64_t> first(count, kNever), last(count, kNever);
  for (size_t step = 0; step < program.steps.size(); ++step) {
    const ProgramStep& it = program.steps[step];
    const auto at = static_cast<int64_t>(step);
    for (const std::vector<int>* list : {&it.inputs, &it.outputs, &it.temporaries}) {
      for (const int buffer : *list) {
        const auto b = static_cast<size_t>(buffer);
        if (first[b] == kNever) first[b] = at;
        last[b] = at;
      }
    }
  }
  for (const int result : program.results) {
    last[static_cast<size_t>(result)] = std::ssize(program.steps);
    if (first[static_cast<size_t>(result)] == kNever) first[static_cast<size_t>(result)] = std::ssize(program.steps);
  }
  MemoryLayout layout;
  layout.offsets.assign(count, 0);
  std::vector<LiveTensor> shared;
  std::vector<size_t> places;
  for (size_t b = 0; b < count; ++b) {
    if (!elsewhere.empty() && elsewhere[b]) continue;
    const int64_t bytes = aligned(bytes_of(program.buffers[b].shape));
    if (is_given(program.buffers[b])) {
      layout.offsets[b] = layout.constant_bytes;
      layout.constant_bytes += bytes;
    } else if (first[b] != kNever) {
      places.push_back(b);
      shared.push_back({bytes, first[b], last[b], kAlignment});
      layout.separate_bytes += bytes;
    }
  }
  const MemoryPlan plan = plan_memory(shared, kPlanNodes);
  for (size_t i = 0; i < places.size(); ++i) layout.offsets[places[i]] = plan.offsets[i];
  layout.working_bytes = plan.peak;
  return layout;
}

Result<std::string> architecture_of(const GpuDevice& device) {
  int major = 0;
  int minor = 0;
  const CudaDriver& driver = device.driver();
  STRATA_CHECK(driver.check(driver.device_attribute(&major, CudaDriver::kCapabilityMajor, 0), "the architecture"));
  STRATA_CHECK(driver.check(driver.device_attribute(&minor, CudaDriver::kCapabilityMinor, 0), "the architecture"));
  const int version = major * 10 + minor;
  if (version == 90) return std::string("sm_90a");
  // Code for an architecture runs on all later ones of its generation.
  if (version >= 80 && version < 90) return std::string("sm_80");
  return unsupported("{} is of architecture {}.{}; kernels are made for 8.x and 9.0", device.name(), major, minor);
}

GpuRunner::GpuRunner(const GpuDevice& device, EmittedProgram program) : device_(device), program_(std::move(program)) {}

GpuRunner::~GpuRunner() = default;

Result<std::unique_ptr<GpuRunner>> GpuRunner::load(const GpuDevice& device, EmittedProgram program,
                                                   const EmitOptions& options, const KernelLoader& loader) {
  return load(device, std::move(program), options, loader, std::make_shared<StreamOrder>(), /*is_body=*/false);
}

Result<std::unique_ptr<GpuRunner>> GpuRunner::load_body(const GpuDevice& device, EmittedProgram program,
                                                        const EmitOptions& options, const KernelLoader& loader,
                                                        std::shared_ptr<StreamOrder> order) {
  return load(device, std::move(program), options, loader, std::move(order), /*is_body=*/true);
}

Result<std::unique_ptr<GpuRunner>> GpuRunner::load(const GpuDevice& device, EmittedProgram program,
                                                   const EmitOptions& options, const KernelLoader& loader,
                                                   std::shared_ptr<StreamOrder> order, bool is_body) {
  std::unique_ptr<GpuRunner> made(new GpuRunner(device, std::move(program)));
  made->order_ = std::move(order);
  made->overlaps_ = options.target.overlapping_kernels;
  made->is_body_ = is_body;
  made->modules_ = std::make_shared<Modules>(device.driver());
  std::vector<ProgramStep>& steps = made->program_.steps;
  // Cubins take most of the time: all cores make them.
  const KernelLoader load =
      loader ? loader : [&](const EmittedFusion& of) { return cubin_of(of, std::string(options.target.name)); };
  std::vector<Result<std::string>> images(steps.size());
  std::atomic<size_t> next = 0;
  {
    std::vector<std::jthread> workers;
    const size_t count = std::min<size_t>({std::max(1U, std::thread::hardware_concurrency()), steps.size(), 16});
    for (size_t t = 0; t < count; ++t) {
      workers.emplace_back([&] {
        for (size_t i = next++; i < steps.size(); i = next++) {
          if (steps[i].fusion) images[i] = load(*steps[i].fusion);
        }
      });
    }
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    Loaded& loaded = made->loaded_.emplace_back();
    const KernelLoader once = [&](const EmittedFusion& of) {
      return images[i] && images[i]->empty() ? load(of) : images[i];
    };
    STRATA_CHECK(made->load_step(steps[i], options, once, loaded));
  }
  STRATA_CHECK(made->allocate());
  return made;
}

void GpuRunner::replace(ProgramStep& step, const EmitOptions& options, const Error& why) {
  const std::string& name = step.interpreted->entry_computation().name;
  const hlo::Module flat = hlo::inline_calls(*step.interpreted);
  Result<EmittedFusion> fusion = emit_fusion(flat, flat.entry, name + "_kernel", options);
  notes_.push_back(fmt::format("{}: {}; {} in its place", name, why.message, fusion ? "a kernel" : "the interpreter"));
  step.library.reset();
  step.lax.reset();
  step.temporaries.clear();
  if (fusion) {
    step.fusion = *std::move(fusion);
  } else {
    step.why_interpreted = fusion.error().message;
  }
}

Result<void> GpuRunner::load_lax(const LaxStep& step, Loaded& loaded) const {
  if (step.cubin.empty() && step.manifest.uses_kernels()) return environment("its code was not compiled");
  STRATA_TRY(loaded.program, GpuProgram::load(device_, step.cubin, step.manifest));
  for (const GpuBuffer& buffer : step.manifest.buffers) {
    if (buffer.role != BufferRole::Counters) continue;
    STRATA_TRY(GpuMemory memory, GpuMemory::allocate(device_, buffer.type.bytes()));
    STRATA_CHECK(memory.clear());
    loaded.counters.emplace(buffer.name, std::move(memory));
  }
  return {};
}

Result<void> GpuRunner::load_step(ProgramStep& step, const EmitOptions& options, const KernelLoader& loader,
                                  Loaded& loaded) {
  if (step.loop) {
    STRATA_TRY(loaded.loop, GpuLoop::load(device_, step.loop, options, loader, order_));
    for (const std::string& note : loaded.loop->notes()) notes_.push_back(note);
    return {};
  }
  if (step.library) {
    Result<std::unique_ptr<PreparedWork>> work = device_.prepare(step.library->work);
    if (work) {
      loaded.work = *std::move(work);
      return {};
    }
    replace(step, options, work.error());
  }
  if (step.lax) {
    const Result<void> taken = load_lax(*step.lax, loaded);
    if (taken) return {};
    loaded.program.reset();
    replace(step, options, taken.error());
  }
  if (!step.fusion) return {};
  const CudaDriver& driver = device_.driver();
  STRATA_TRY(const std::string image, loader(*step.fusion));
  STRATA_CHECK(driver.check(driver.load_module(&loaded.module, image.data()),
                            fmt::format("loading the kernels of {}", step.fusion->name())));
  modules_->add(loaded.module);
  const std::vector<std::string> names = step.fusion->kernel_names();
  for (size_t i = 0; i < names.size(); ++i) {
    CudaFunction& function = loaded.functions.emplace_back();
    if (step.fusion->decision().launches[i].blocks == 0) continue;
    STRATA_CHECK(driver.check(driver.get_function(&function, loaded.module, names[i].c_str()),
                              fmt::format("finding kernel '{}'", names[i])));
    const int64_t shared = step.fusion->decision().launches[i].shared_bytes;
    if (shared <= kGrantedSharedBytes) continue;
    STRATA_CHECK(driver.check(
        driver.set_function_attribute(function, CudaDriver::kMostDynamicSharedBytes, static_cast<int>(shared)),
        fmt::format("{} bytes of shared memory for kernel '{}'", shared, names[i])));
  }
  return {};
}

Result<void> GpuRunner::allocate() {
  // Kernels that replace a library's work may have temporaries.
  for (ProgramStep& step : program_.steps) {
    if (!step.fusion || !step.temporaries.empty()) continue;
    for (const hlo::Shape& shape : step.fusion->decision().temporaries) {
      step.temporaries.push_back(static_cast<int>(program_.buffers.size()));
      program_.buffers.push_back({shape});
    }
  }
  bound_.assign(program_.buffers.size(), 0);
  std::vector<bool> elsewhere(program_.buffers.size(), false);
  if (is_body_) {
    for (size_t i = 0; i < elsewhere.size(); ++i) elsewhere[i] = program_.buffers[i].parameter >= 0;
    for (const int result : program_.results) {
      const auto b = static_cast<size_t>(result);
      elsewhere[b] = !program_.buffers[b].constant;
    }
  }
  layout_ = lay_out(program_, elsewhere);
  const auto take = [&](std::optional<GpuMemory>& memory, int64_t bytes) -> Result<void> {
    STRATA_TRY(memory, GpuMemory::allocate(device_, std::max(bytes, kAlignment)));
    return memory->poison();
  };
  STRATA_CHECK(take(constants_, layout_.constant_bytes));
  STRATA_CHECK(take(working_, layout_.working_bytes));
  STRATA_CHECK(allocate_workspace());
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    if (program_.buffers[i].constant) STRATA_CHECK(upload(static_cast<int>(i), *program_.buffers[i].constant));
  }
  return {};
}

Result<void> GpuRunner::allocate_workspace() {
  int64_t bytes = kAlignment;
  for (const Loaded& loaded : loaded_) bytes = std::max(bytes, loaded.work ? loaded.work->workspace_bytes() : 0);
  STRATA_TRY(workspace_, GpuMemory::allocate(device_, bytes));
  return workspace_->poison();
}

Result<void> GpuRunner::choose_algorithms(ResultCache* cache) {
  STRATA_CHECK(choose_algorithms_of_steps(cache));
  const bool one_kernel = program_.steps.size() < 2 && !program_.steps.empty() && !program_.steps.front().loop;
  if (!overlaps_ || one_kernel || step_on_host()) return {};
  // What cannot be timed can still run, which says why if it cannot.
  const Result<double> with = microseconds();
  order_->overlaps = false;
  const Result<double> without = microseconds();
  order_->overlaps = !with || !without || *with <= *without;
  return {};
}

Result<void> GpuRunner::choose_algorithms_of_steps(ResultCache* cache) {
  std::map<std::string, LibraryWork> chosen;
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    Loaded& loaded = loaded_[i];
    if (loaded.loop) STRATA_CHECK(loaded.loop->choose_algorithms_of_steps(cache));
    if (!loaded.work) continue;
    LibraryLaunch& launch = *program_.steps[i].library;
    const std::string same = identity_of(launch.work);
    if (const auto known = chosen.find(same); known != chosen.end()) {
      STRATA_TRY(loaded.work, device_.prepare(known->second));
      launch.work = known->second;
      continue;
    }
    std::vector<int64_t> bytes;
    for (const int buffer : launch.arguments) bytes.push_back(bytes_of(shape_of(buffer)));
    STRATA_TRY(PreparedLibraryWork best, fastest_algorithm(device_, launch.work, bytes, cache));
    loaded.work = std::move(best.prepared);
    launch.work = chosen[same] = std::move(best.work);
  }
  return allocate_workspace();
}

CudaPointer GpuRunner::pointer(int buffer) const {
  const auto b = static_cast<size_t>(buffer);
  if (bound_[b] != 0) return bound_[b];
  const GpuMemory& region = is_given(program_.buffers[b]) ? *constants_ : *working_;
  return region.pointer() + static_cast<CudaPointer>(layout_.offsets[b]);
}

Result<void> GpuRunner::upload(int buffer, const hlo::Literal& value) const {
  const Buffer bytes = to_buffer(value, shape_of(buffer));
  if (bytes.size() == 0) return {};
  const CudaDriver& driver = device_.driver();
  STRATA_CHECK(driver.check(driver.copy_to_device(pointer(buffer), bytes.data(), bytes.size()), "copying to the GPU"));
  return device_.synchronize();
}

Result<hlo::Literal> GpuRunner::download(int buffer) const {
  const hlo::Shape& shape = shape_of(buffer);
  Buffer bytes(static_cast<size_t>(bytes_of(shape)));
  const CudaDriver& driver = device_.driver();
  STRATA_CHECK(device_.synchronize());
  if (bytes.size() > 0) {
    STRATA_CHECK(
        driver.check(driver.copy_to_host(bytes.data(), pointer(buffer), bytes.size()), "copying from the GPU"));
  }
  return from_buffer(bytes, shape);
}

Result<void> GpuRunner::prepare_outputs(const ProgramStep& step) const {
  const CudaDriver& driver = device_.driver();
  for (const Preparation& one : step.fusion->decision().preparations) {
    const int output = (one.temporary ? step.temporaries : step.outputs)[static_cast<size_t>(one.output)];
    const CudaPointer to = pointer(output);
    const auto bytes = static_cast<size_t>(bytes_of(shape_of(output)));
    if (bytes == 0) continue;
    int status = 0;
    if (one.kind == Preparation::Kind::Copy) {
      const CudaPointer from = pointer(step.inputs[static_cast<size_t>(one.input)]);
      if (from == to) continue;
      order_->behind_kernel = false;
      status = driver.copy_on_device_later(to, from, bytes, device_.stream());
    } else {
      order_->behind_kernel = false;
      const size_t width = one.value.byte_size();
      const std::byte* value = one.value.bytes();
      const auto word = [&](auto zero, size_t at) {
        std::memcpy(&zero, value + at, sizeof zero);
        return zero;
      };
      bool same_words = width % 4 == 0;
      for (size_t at = 4; at < width && same_words; at += 4) same_words = word(0U, at) == word(0U, 0);
      if (width == 1) {
        status = driver.fill_bytes_later(to, word(static_cast<unsigned char>(0), 0), bytes, device_.stream());
      } else if (width == 2) {
        status = driver.fill_halves_later(to, word(static_cast<unsigned short>(0), 0), bytes / 2, device_.stream());
      } else if (same_words) {
        status = driver.fill_words_later(to, word(0U, 0), bytes / 4, device_.stream());
      } else {
        for (size_t at = 0; at < width && status == 0; at += 4)
          status = driver.fill_rows_later(to + at, width, word(0U, at), 1, bytes / width, device_.stream());
      }
    }
    STRATA_CHECK(driver.check(status, fmt::format("preparing an output of {}", step.fusion->name())));
  }
  return {};
}

Result<void> GpuRunner::launch(const ProgramStep& step, const Loaded& loaded) const {
  STRATA_CHECK(prepare_outputs(step));
  std::vector<CudaPointer> pointers;
  for (const std::vector<int>* list : {&step.inputs, &step.outputs, &step.temporaries}) {
    for (const int buffer : *list) pointers.push_back(pointer(buffer));
  }
  std::vector<void*> arguments;
  for (CudaPointer& one : pointers) arguments.push_back(&one);
  const std::vector<Launch>& launches = step.fusion->decision().launches;
  for (size_t i = 0; i < launches.size(); ++i) {
    if (launches[i].blocks == 0) continue;
    CudaLaunchConfig config;
    config.grid[0] = static_cast<unsigned>(launches[i].blocks);
    config.block[0] = static_cast<unsigned>(launches[i].threads);
    config.shared_bytes = static_cast<unsigned>(launches[i].shared_bytes);
    config.stream = device_.stream();
    CudaLaunchAttribute overlap;
    overlap.id = CudaLaunchAttribute::kOverlapsPrevious;
    overlap.value = {1};
    config.attributes = &overlap;
    config.attribute_count = overlaps_ && order_->overlaps && order_->behind_kernel ? 1 : 0;
    order_->behind_kernel = true;
    STRATA_CHECK(
        device_.driver().check(device_.driver().launch(&config, loaded.functions[i], arguments.data(), nullptr),
                               fmt::format("launching a kernel of {}", step.fusion->name())));
  }
  return {};
}

Result<void> GpuRunner::launch_lax(const ProgramStep& step, const Loaded& loaded) const {
  GpuPointers pointers;
  const Graph& graph = *step.lax->graph;
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    pointers[graph.tensor(graph.inputs()[i]).name] = pointer(step.inputs[static_cast<size_t>(step.lax->inputs[i])]);
  size_t temporary = 0;
  for (const GpuBuffer& buffer : step.lax->manifest.buffers) {
    if (buffer.role == BufferRole::Intermediate) pointers[buffer.name] = pointer(step.temporaries[temporary++]);
    if (buffer.role == BufferRole::Counters) pointers[buffer.name] = loaded.counters.at(buffer.name).pointer();
    if (buffer.role == BufferRole::Output) pointers[buffer.name] = pointer(step.outputs.front());
  }
  const bool behind_kernel = order_->overlaps && order_->behind_kernel;
  order_->behind_kernel = !step.lax->manifest.launches.empty() && !step.lax->manifest.launches.back().library;
  return loaded.program->launch(pointers, behind_kernel);
}

Result<void> GpuRunner::interpret(const ProgramStep& step) const {
  std::vector<hlo::Literal> arguments;
  for (const int input : step.inputs) {
    STRATA_TRY(hlo::Literal value, download(input));
    arguments.push_back(std::move(value));
  }
  STRATA_TRY(const hlo::Literal result, hlo::evaluate(*step.interpreted, arguments));
  for (size_t i = 0; i < step.outputs.size(); ++i)
    STRATA_CHECK(upload(step.outputs[i], result.shape().is_tuple() ? result.elements()[i] : result));
  return {};
}

Result<void> GpuRunner::run_step(size_t number) const {
  const ProgramStep& step = program_.steps[number];
  const Loaded& loaded = loaded_[number];
  if (step.fusion) return launch(step, loaded);
  if (loaded.program) return launch_lax(step, loaded);
  if (loaded.loop) return loaded.loop->run([&](int buffer) { return pointer(buffer); });
  order_->behind_kernel = false;
  if (!loaded.work) return interpret(step);
  std::vector<CudaPointer> arguments;
  for (const int buffer : step.library->arguments) arguments.push_back(pointer(buffer));
  return loaded.work->run(device_.stream(), arguments, workspace_->pointer());
}

Result<hlo::Literal> GpuRunner::run(std::span<const hlo::Literal> arguments) {
  for (size_t i = 0; i < program_.buffers.size(); ++i) {
    const ProgramBuffer& buffer = program_.buffers[i];
    if (buffer.parameter < 0) continue;
    STRATA_TRY(const hlo::Literal value, argument_of(buffer, arguments));
    if (buffer.shape.is_array()) STRATA_CHECK(upload(static_cast<int>(i), value));
  }
  STRATA_CHECK(run_steps());
  STRATA_CHECK(device_.synchronize());
  std::vector<hlo::Literal> arrays;
  for (const int result : program_.results) {
    STRATA_TRY(hlo::Literal value, download(result));
    arrays.push_back(std::move(value));
  }
  return assemble_results(program_, arrays);
}

Result<std::vector<GpuRunner::StepTime>> GpuRunner::profile(int repetitions) {
  const size_t count = program_.steps.size();
  std::vector<std::vector<double>> times(count + 1);
  for (int i = 0; i < repetitions; ++i) {
    std::vector<GpuEvent> events;
    for (size_t step = 0; step <= count; ++step) events.emplace_back(device_);
    for (size_t step = 0; step < count; ++step) {
      STRATA_CHECK(events[step].record());
      order_->behind_kernel = false;
      STRATA_CHECK(run_step(step));
    }
    STRATA_CHECK(events[count].record());
    for (size_t step = 0; step < count; ++step) {
      STRATA_TRY(const double time, events[step].microseconds_until(events[step + 1]));
      times[step].push_back(time);
    }
    STRATA_TRY(const double all, events[0].microseconds_until(events[count]));
    times[count].push_back(all);
  }
  std::vector<StepTime> result;
  for (size_t step = 0; step <= count; ++step) {
    std::vector<double>& of = times[step];
    std::nth_element(of.begin(), of.begin() + std::ssize(of) / 2, of.end());
    StepTime& one = result.emplace_back();
    one.microseconds = of[of.size() / 2];
    if (step == count) {
      one.name = "all";
      continue;
    }
    const ProgramStep& it = program_.steps[step];
    one.name = it.fusion ? it.fusion->name() : it.interpreted->entry_computation().name;
    one.what = it.fusion    ? it.fusion->decision().emitter
               : it.loop    ? loaded_[step].loop->description()
               : it.library ? fmt::format("{} {}", library_of(it.library->work), describe(it.library->work))
               : it.lax     ? "superoptimizer"
                            : "interpreter";
  }
  return result;
}

std::optional<std::string> GpuRunner::step_on_host() const {
  for (size_t i = 0; i < program_.steps.size(); ++i) {
    const ProgramStep& step = program_.steps[i];
    if (loaded_[i].loop) {
      if (auto inside = loaded_[i].loop->step_on_host()) return inside;
    } else if (!step.fusion && !loaded_[i].program && !loaded_[i].work) {
      return fmt::format("{} runs on the host", step.interpreted->entry_computation().name);
    }
  }
  return std::nullopt;
}

Result<void> GpuRunner::run_steps() const {
  if (!is_body_) order_->behind_kernel = false;
  for (size_t i = 0; i < program_.steps.size(); ++i) STRATA_CHECK(run_step(i));
  return {};
}

Result<double> GpuRunner::microseconds() const {
  if (const auto host = step_on_host()) return unsupported("{}", *host);
  return replayed_microseconds(device_, 1, [&](int64_t) { return run_steps(); });
}

}  // namespace strata::emitters
