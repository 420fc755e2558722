#include <mutex>
#include <optional>

#include "api/api.h"
#include "compiler/hlo_function.h"
#include "runtime/cuda_streams.h"
#include "runtime/device_probe.h"
#include "runtime/result_cache.h"

namespace strata::v1 {
namespace {

std::vector<ArraySpec> describe(const std::vector<hlo::Shape>& shapes, const std::vector<std::string>& names) {
  std::vector<ArraySpec> specs;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const hlo::Shape& shape = shapes[i];
    // Elements lie densely, in whatever order of the dimensions.
    const auto bytes = static_cast<size_t>(shape.element_count() * hlo::byte_width(shape.type));
    specs.push_back({i < names.size() ? names[i] : std::string(), std::string(hlo::name(shape.type)), shape.dims,
                     hlo::memory_strides(shape), bytes});
  }
  return specs;
}

std::vector<uintptr_t> numbers_of(std::span<const void* const> addresses) {
  std::vector<uintptr_t> numbers;
  for (const void* const one : addresses) numbers.push_back(reinterpret_cast<uintptr_t>(one));
  return numbers;
}

/// Opening makes the device's context current: another one that the caller works on is made so again.
Result<std::shared_ptr<GpuDevice>> open_device() {
  CudaContext before = nullptr;
  if (const auto streams = open_cuda_streams()) streams->current_context(&before);
  STRATA_TRY(std::shared_ptr<GpuDevice> device, GpuDevice::open());
  if (before != nullptr) device->driver().context_use(before);
  return device;
}

}  // namespace

std::shared_ptr<GpuDevice> device_for(Place place) {
  if (place == Place::Cpu) return nullptr;
  static std::mutex opening;
  static std::weak_ptr<GpuDevice> opened;
  const std::lock_guard lock(opening);
  if (std::shared_ptr<GpuDevice> device = opened.lock()) return device;
  const auto device = open_device();
  if (place == Place::Auto && (!device || !architecture_of(**device))) return nullptr;
  if (!device) raise(device.error());
  opened = *device;
  return *device;
}

Function make_function(std::shared_ptr<GpuDevice> device, std::unique_ptr<compiler::ArrayFunction> function,
                       std::vector<std::string> notes) {
  auto state = std::make_unique<Function::State>();
  state->inputs = describe(function->inputs(), function->input_names());
  state->results = describe(function->results(), {});
  notes.insert(notes.end(), function->notes().begin(), function->notes().end());
  state->notes = std::move(notes);
  state->device = std::move(device);
  state->function = std::move(function);
  return Function(std::move(state));
}

Function::Function(std::unique_ptr<State> state) : state_(std::move(state)) {}
Function::~Function() = default;
Function::Function(Function&&) noexcept = default;
Function& Function::operator=(Function&&) noexcept = default;

const std::vector<ArraySpec>& Function::inputs() const { return state_->inputs; }
const std::vector<ArraySpec>& Function::results() const { return state_->results; }
bool Function::on_gpu() const { return state_->function->on_gpu(); }
size_t Function::alignment() const { return state_->function->alignment(); }
int64_t Function::device_bytes() const { return state_->function->held_bytes(); }
const std::vector<std::string>& Function::notes() const { return state_->notes; }
const std::string& Function::explanation() const { return state_->function->explanation(); }

void Function::operator()(std::span<const void* const> inputs, std::span<void* const> results, void* stream) const {
  const std::vector<uintptr_t> from = numbers_of(inputs);
  const std::vector<uintptr_t> to = numbers_of({results.data(), results.size()});
  value_of(state_->function->call(from, to, reinterpret_cast<CudaStream>(stream)));
}

Function compile_hlo(std::string_view text, const CompileOptions& options) {
  std::shared_ptr<GpuDevice> device = device_for(options.place);
  std::vector<std::string> notes;
  std::optional<ResultCache> cache;
  if (!options.cache_folder.empty())
    cache.emplace(options.cache_folder, [&](const std::string& warning) { notes.push_back(warning); });
  const compiler::HloOptions request{options.search_seconds, cache ? &*cache : nullptr, options.file};
  auto function = value_of(compiler::HloFunction::compile(text, device.get(), request));
  return make_function(std::move(device), std::move(function), std::move(notes));
}

std::string default_cache_folder() { return strata::default_cache_folder(); }
std::string build_identity() { return strata::build_identity(); }

}  // namespace strata::v1
