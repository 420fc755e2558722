#include "runtime/gpu_function.h"

#include <algorithm>
#include <set>

namespace strata {
namespace {

/// Where an array without elements lies: nothing is read there, but 0 would mean "not given".
constexpr CudaPointer kNowhere = kBufferAlignment;
/// From so many steps on, launching a graph costs the host less than launching the steps.
constexpr size_t kWorthAGraph = 3;

}  // namespace

Result<std::unique_ptr<GpuFunction>> GpuFunction::make(std::unique_ptr<GpuProgram> program,
                                                       const std::vector<std::string>& inputs) {
  std::unique_ptr<GpuFunction> made(new GpuFunction(std::move(program)));
  STRATA_CHECK(made->prepare(inputs));
  return made;
}

GpuFunction::~GpuFunction() {
  if (streams_.push_context == nullptr) return;
  const GpuDevice& device = program_->device();
  const CudaDriver& driver = device.driver();
  const auto scope = ContextScope::enter(driver, streams_, device.context());
  if (last_call_ != nullptr) driver.destroy_event(last_call_);
  graphs_.reset();
  buffers_.reset();  // the driver waits for what still uses the memory
  program_.reset();
}

Result<GpuFunction::Array> GpuFunction::array_of(const std::string& name) const {
  const std::vector<GpuBuffer>& buffers = program_->manifest().buffers;
  const auto found =
      std::find_if(buffers.begin(), buffers.end(), [&](const GpuBuffer& one) { return one.name == name; });
  if (found == buffers.end()) return invalid("the program has no buffer '{}'", name);
  Array array;
  array.buffer = static_cast<size_t>(found - buffers.begin());
  array.bytes = found->type.bytes();
  const std::vector<size_t>& roots = program_->roots();
  for (size_t i = 0; i < roots.size(); ++i) {
    if (roots[i] == array.buffer) array.lying_in.push_back(i);
  }
  return array;
}

Result<void> GpuFunction::prepare(const std::vector<std::string>& inputs) {
  const LaunchManifest& manifest = program_->manifest();
  const CudaDriver& driver = program_->device().driver();
  STRATA_TRY(streams_, open_cuda_streams());
  // A loop whose condition depends on data is a graph of its own, made for the places of all buffers: they stay.
  const bool stays = asking_depth(manifest.steps) > 0;
  std::set<size_t> given;
  for (const std::string& name : inputs) {
    STRATA_TRY(Array array, array_of(name));
    if (manifest.buffers[array.buffer].role != BufferRole::Input) return invalid("'{}' is no input", name);
    array.copied = stays || program_->roots()[array.buffer] != array.buffer;
    if (!array.copied) given.insert(array.buffer);
    inputs_.push_back(std::move(array));
  }
  auto results = manifest.results;
  for (const GpuBuffer& buffer : manifest.buffers) {
    if (manifest.results.empty() && buffer.role == BufferRole::Output) results.emplace_back(buffer.name, buffer.name);
  }
  for (const auto& [name, buffer] : results) {
    STRATA_TRY(Array array, array_of(buffer));
    const GpuBuffer& of = manifest.buffers[array.buffer];
    const bool own_place =
        of.role == BufferRole::Output && !of.offset && program_->roots()[array.buffer] == array.buffer;
    array.copied = stays || !own_place || !given.insert(array.buffer).second;
    results_.push_back(std::move(array));
  }
  STRATA_TRY(buffers_, program_->allocate(given));
  if (!stays && manifest.steps.size() >= kWorthAGraph && !program_->step_on_host()) graphs_.emplace(driver);
  const MemoryLayout layout = layout_of(manifest);
  held_bytes_ = layout.working_bytes + layout.constant_bytes;
  for (size_t i = 0; i < manifest.buffers.size(); ++i) {
    const GpuBuffer& buffer = manifest.buffers[i];
    const bool own = program_->roots()[i] == i && !buffer.offset && buffer.role != BufferRole::Carried;
    if (own && given.count(i) == 0) held_bytes_ += buffer.type.bytes();
  }
  return driver.check(driver.create_event(&last_call_, CudaStreams::kWithoutTime), "making an event");
}

Result<void> GpuFunction::check(std::span<const CudaPointer> given, const std::vector<Array>& arrays,
                                const char* what) const {
  if (given.size() != arrays.size()) return invalid("there are {} {}s, not {}", arrays.size(), what, given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    if (arrays[i].bytes > 0 && given[i] == 0) return invalid("{} {} lies nowhere", what, i);
    if (given[i] % kAlignment != 0)
      return with_remedy(invalid("{} {} does not begin at a multiple of {} bytes", what, i, kAlignment), "copy it");
  }
  return {};
}

Result<void> GpuFunction::check_stream(CudaStream stream) const {
  const GpuDevice& device = program_->device();
  STRATA_TRY(const ContextScope scope, ContextScope::enter(device.driver(), streams_, device.context()));
  CudaContext context = nullptr;
  STRATA_CHECK(device.driver().check(streams_.context_of(stream, &context), "the stream's context"));
  if (context == device.context()) return {};
  return with_remedy(invalid("the call is on another GPU, and the function is compiled for the first one"),
                     "put the arrays on the first GPU");
}

Result<void> GpuFunction::copy(CudaPointer to, CudaPointer from, size_t bytes, CudaStream stream) const {
  const GpuDevice& device = program_->device();
  STRATA_TRY(const ContextScope scope, ContextScope::enter(device.driver(), streams_, device.context()));
  return device.driver().check(device.driver().copy_on_device_later(to, from, bytes, stream), "copying an array");
}

/// Lets the stream wait for the last call, where that was put on another one.
Result<void> GpuFunction::order(CudaStream stream, bool recorded) {
  const CudaDriver& driver = program_->device().driver();
  if (recorded || !last_stream_ || *last_stream_ == stream) return {};
  return driver.check(streams_.wait_event(stream, last_call_, 0), "waiting for the call before");
}

Result<void> GpuFunction::launch(std::span<const CudaPointer> inputs, std::span<const CudaPointer> results,
                                 CudaStream stream, bool recorded) {
  const CudaDriver& driver = program_->device().driver();
  std::vector<CudaPointer> pointers = buffers_->pointers();
  const auto copy = [&](CudaPointer to, CudaPointer from, int64_t bytes) -> Result<void> {
    if (bytes == 0 || to == from) return {};
    return driver.check(driver.copy_on_device_later(to, from, static_cast<size_t>(bytes), stream), "copying");
  };
  const auto bind = [&](const Array& array, CudaPointer pointer) {
    for (const size_t buffer : array.lying_in) pointers[buffer] = pointer == 0 ? kNowhere : pointer;
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs_[i].copied) {
      bind(inputs_[i], inputs[i]);
    } else {
      STRATA_CHECK(copy(pointers[inputs_[i].buffer], inputs[i], inputs_[i].bytes));
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results_[i].copied) bind(results_[i], results[i]);
  }
  const auto steps = [&](CudaStream on) { return program_->launch(pointers, on); };
  STRATA_CHECK(graphs_ && !recorded ? graphs_->run(pointers, stream, steps) : steps(stream));
  for (size_t i = 0; i < results.size(); ++i) {
    if (results_[i].copied) STRATA_CHECK(copy(results[i], pointers[results_[i].buffer], results_[i].bytes));
  }
  return {};
}

Result<void> GpuFunction::call(std::span<const CudaPointer> inputs, std::span<const CudaPointer> results,
                               CudaStream stream) {
  STRATA_CHECK(check(inputs, inputs_, "input"));
  STRATA_CHECK(check(results, results_, "result"));
  const CudaDriver& driver = program_->device().driver();
  const std::lock_guard lock(calling_);
  STRATA_TRY(const ContextScope scope, ContextScope::enter(driver, streams_, program_->device().context()));
  int state = CudaStreams::kNotRecorded;
  STRATA_CHECK(driver.check(streams_.recording(stream, &state), "the state of the stream"));
  const bool recorded = state != CudaStreams::kNotRecorded;
  if (const auto host = recorded ? program_->step_on_host() : std::nullopt)
    return with_remedy(unsupported("a CUDA graph cannot hold this program: {}", *host), "call it outside of the graph");
  STRATA_CHECK(order(stream, recorded));
  const Result<void> launched = launch(inputs, results, stream, recorded);
  if (recorded) return launched;
  // After an error, too, some of the work may be on the stream.
  last_stream_ = stream;
  const Result<void> marked = driver.check(driver.record_event(last_call_, stream), "recording an event");
  return launched ? marked : launched;
}

}  // namespace strata
