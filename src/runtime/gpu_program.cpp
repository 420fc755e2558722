#include "runtime/gpu_program.h"

#include <algorithm>
#include <cmath>

#include "runtime/replay.h"

namespace strata {
namespace {

/// Above it a kernel must ask for its dynamic shared memory.
constexpr int64_t kGrantedSharedBytes = 48 << 10;

constexpr int64_t kMostSets = 64;
constexpr double kTimesL2 = 4;
/// Of the free memory, what buffers may take.
constexpr double kMemoryShare = 0.8;

/// The map as a kernel takes it, of a tensor that begins at `base`.
Result<CudaTensorMap> encode(const CudaDriver& driver, const GpuTensorMap& map, CudaPointer base) {
  CudaTensorMap made;
  const int swizzle = map.swizzle == 128 ? 3 : map.swizzle == 64 ? 2 : map.swizzle == 32 ? 1 : 0;
  const std::vector<uint64_t> sizes(map.sizes.begin(), map.sizes.end());
  std::vector<uint64_t> strides(map.strides.begin() + 1, map.strides.end());
  if (strides.empty()) strides.push_back(0);  // tensors of one dimension have none, but the driver wants an array
  const std::vector<uint32_t> box(map.box.begin(), map.box.end());
  const std::vector<uint32_t> every_element(box.size(), 1);
  const int status = driver.encode_tensor_map(
      &made, map.element_bytes == 4 ? CudaDriver::kElements32 : CudaDriver::kElements16,
      static_cast<unsigned>(sizes.size()), reinterpret_cast<void*>(base), sizes.data(), strides.data(), box.data(),
      every_element.data(), 0, swizzle, CudaDriver::kPromote256, 0);
  STRATA_CHECK(driver.check(status, "describing a tensor to TMA"));
  return made;
}

}  // namespace

Result<std::unique_ptr<GpuDevice>> GpuDevice::open() {
  std::unique_ptr<GpuDevice> made(new GpuDevice);
  GpuDevice& d = *made;
  STRATA_TRY(d.driver_, open_cuda_driver());
  STRATA_CHECK(d.driver_.check(d.driver_.init(0), "starting the CUDA driver"));
  STRATA_CHECK(d.driver_.check(d.driver_.device_get(&d.device_, 0), "no GPU"));
  std::array<char, 128> name{};
  STRATA_CHECK(d.driver_.check(d.driver_.device_name(name.data(), static_cast<int>(name.size()), d.device_), "name"));
  d.name_ = name.data();
  STRATA_CHECK(d.driver_.check(d.driver_.driver_version(&d.version_), "the driver's version"));
  int l2 = 0;
  STRATA_CHECK(d.driver_.check(d.driver_.device_attribute(&l2, CudaDriver::kL2CacheBytes, d.device_), "L2 cache"));
  d.l2_bytes_ = l2;
  CudaContext context = nullptr;
  STRATA_CHECK(d.driver_.check(d.driver_.context_retain(&context, d.device_), "making a context"));
  d.retained_ = true;
  STRATA_CHECK(d.driver_.check(d.driver_.context_use(context), "using the context"));
  STRATA_CHECK(d.driver_.check(d.driver_.create_stream(&d.stream_, CudaDriver::kNonBlocking), "making a stream"));
  return made;
}

GpuDevice::~GpuDevice() {
  products_.reset();
  convolutions_.reset();
  ffts_.reset();
  if (stream_ != nullptr) driver_.destroy_stream(stream_);
  if (retained_) driver_.context_release(device_);
}

Result<int64_t> GpuDevice::free_bytes() const {
  size_t free = 0;
  size_t all = 0;
  STRATA_CHECK(driver_.check(driver_.memory_info(&free, &all), "free memory"));
  return static_cast<int64_t>(free);
}

Result<void> GpuDevice::synchronize() const { return driver_.check(driver_.synchronize(), "running the kernels"); }

Result<std::unique_ptr<PreparedWork>> GpuDevice::prepare(const LibraryWork& work) const {
  if (const auto* product = std::get_if<MatrixProduct>(&work)) {
    if (!products_) {
      STRATA_TRY(products_, ProductLibrary::open());
    }
    return strata::prepare(*products_, *product);
  }
  if (const auto* fft = std::get_if<Fft>(&work)) {
    if (!ffts_) {
      STRATA_TRY(ffts_, FftLibrary::open(driver_));
    }
    return strata::prepare(*ffts_, *fft);
  }
  if (!convolutions_) {
    STRATA_TRY(convolutions_, ConvolutionLibrary::open());
  }
  return strata::prepare(*convolutions_, std::get<Convolution>(work));
}

GpuEvent::GpuEvent(GpuEvent&& other) noexcept : device_(other.device_), event_(std::exchange(other.event_, nullptr)) {}

GpuEvent::~GpuEvent() {
  if (event_ != nullptr) device_->driver().destroy_event(event_);
}

Result<void> GpuEvent::record() {
  const CudaDriver& driver = device_->driver();
  if (event_ == nullptr) STRATA_CHECK(driver.check(driver.create_event(&event_, 0), "making an event"));
  return driver.check(driver.record_event(event_, device_->stream()), "recording an event");
}

Result<double> GpuEvent::microseconds_until(const GpuEvent& end) const {
  const CudaDriver& driver = device_->driver();
  STRATA_CHECK(driver.check(driver.synchronize_event(end.event_), "running the kernels"));
  float milliseconds = 0;
  STRATA_CHECK(driver.check(driver.elapsed(&milliseconds, event_, end.event_), "reading the time"));
  return milliseconds * 1e3;
}

Result<GpuMemory> GpuMemory::allocate(const GpuDevice& device, int64_t bytes) {
  CudaPointer pointer = 0;
  STRATA_CHECK(device.driver().check(device.driver().allocate(&pointer, static_cast<size_t>(bytes)),
                                     fmt::format("allocating {} bytes", bytes)));
  return GpuMemory(&device, pointer, bytes);
}

GpuMemory::GpuMemory(GpuMemory&& other) noexcept
    : device_(other.device_), pointer_(std::exchange(other.pointer_, 0)), bytes_(other.bytes_) {}

GpuMemory& GpuMemory::operator=(GpuMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(pointer_, other.pointer_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

GpuMemory::~GpuMemory() {
  if (pointer_ != 0) device_->driver().release(pointer_);
}

// Copies and fills are not ordered with the stream of the launches, which waits for no other: they wait for themselves.
Result<void> GpuMemory::upload(const std::string& bytes) {
  STRATA_CHECK(device_->driver().check(device_->driver().copy_to_device(pointer_, bytes.data(), bytes.size()),
                                       "copying to the device"));
  return device_->synchronize();
}

Result<std::string> GpuMemory::download() const {
  STRATA_CHECK(device_->synchronize());
  std::string bytes(static_cast<size_t>(bytes_), '\0');
  STRATA_CHECK(device_->driver().check(device_->driver().copy_to_host(bytes.data(), pointer_, bytes.size()),
                                       "copying from the device"));
  return bytes;
}

Result<void> GpuMemory::copy_from(const GpuMemory& other) {
  STRATA_CHECK(device_->driver().check(
      device_->driver().copy_on_device(pointer_, other.pointer_, static_cast<size_t>(bytes_)), "copying"));
  return device_->synchronize();
}

Result<void> GpuMemory::poison() { return fill(0xFF); }

Result<void> GpuMemory::clear() { return fill(0); }

Result<void> GpuMemory::fill(unsigned char byte) {
  STRATA_CHECK(
      device_->driver().check(device_->driver().fill(pointer_, byte, static_cast<size_t>(bytes_)), "filling memory"));
  return device_->synchronize();
}

Result<std::unique_ptr<GpuProgram>> GpuProgram::load(const GpuDevice& device, const std::string& cubin,
                                                     LaunchManifest manifest) {
  std::unique_ptr<GpuProgram> made(new GpuProgram(device, std::move(manifest)));
  const CudaDriver& driver = device.driver();
  if (made->manifest_.uses_kernels())
    STRATA_CHECK(driver.check(driver.load_module(&made->module_, cubin.data()), "loading the cubin"));
  int64_t workspace = 0;
  for (const GpuLaunch& launch : made->manifest_.launches) {
    Step step;
    if (launch.library) {
      STRATA_TRY(step.work, device.prepare(*launch.library));
      workspace = std::max(workspace, step.work->workspace_bytes());
    } else {
      STRATA_TRY(step.function, made->find_kernel(launch));
    }
    made->steps_.push_back(std::move(step));
  }
  if (workspace > 0) {
    STRATA_TRY(made->workspace_, GpuMemory::allocate(device, workspace));
  }
  return made;
}

Result<CudaFunction> GpuProgram::find_kernel(const GpuLaunch& launch) const {
  const CudaDriver& driver = device_.driver();
  CudaFunction function = nullptr;
  STRATA_CHECK(driver.check(driver.get_function(&function, module_, launch.kernel.c_str()),
                            fmt::format("finding kernel '{}'", launch.kernel)));
  if (launch.shared_bytes > kGrantedSharedBytes) {
    const int status = driver.set_function_attribute(function, CudaDriver::kMostDynamicSharedBytes,
                                                     static_cast<int>(launch.shared_bytes));
    STRATA_CHECK(driver.check(
        status, fmt::format("{} bytes of shared memory for kernel '{}'", launch.shared_bytes, launch.kernel)));
  }
  return function;
}

GpuProgram::~GpuProgram() {
  if (module_ != nullptr) device_.driver().unload_module(module_);
}

Result<GpuBuffers> GpuProgram::allocate() const {
  GpuBuffers buffers;
  for (const GpuBuffer& buffer : manifest_.buffers) {
    STRATA_TRY(GpuMemory memory, GpuMemory::allocate(device_, buffer.type.bytes()));
    STRATA_CHECK(buffer.role == BufferRole::Counters ? memory.clear() : memory.poison());
    buffers.emplace(buffer.name, std::move(memory));
  }
  return buffers;
}

Result<void> GpuProgram::launch(const GpuBuffers& buffers) const {
  GpuPointers pointers;
  for (const auto& [name, memory] : buffers) pointers[name] = memory.pointer();
  return launch(pointers);
}

Result<void> GpuProgram::launch(const GpuPointers& buffers, bool overlaps_first) const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const GpuLaunch& launch = manifest_.launches[i];
    std::vector<CudaPointer> pointers;
    for (const std::string& name : launch.arguments) pointers.push_back(buffers.at(name));
    if (steps_[i].work) {
      STRATA_CHECK(steps_[i].work->run(device_.stream(), pointers, workspace_ ? workspace_->pointer() : 0));
    } else {
      const bool overlaps = launch.overlaps_previous && (i > 0 || overlaps_first);
      STRATA_CHECK(launch_kernel(launch, steps_[i].function, pointers, overlaps));
    }
  }
  return {};
}

Result<void> GpuProgram::launch_kernel(const GpuLaunch& launch, CudaFunction function,
                                       std::vector<CudaPointer>& pointers, bool overlaps) const {
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
  config.block[0] = static_cast<unsigned>(launch.threads);
  config.shared_bytes = static_cast<unsigned>(launch.shared_bytes);
  config.stream = device_.stream();
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
  if (overlaps) {
    CudaLaunchAttribute& attribute = attributes[config.attribute_count++];
    attribute.id = CudaLaunchAttribute::kOverlapsPrevious;
    attribute.value = {1};
  }
  return device_.driver().check(device_.driver().launch(&config, function, arguments.data(), nullptr),
                                fmt::format("launching '{}'", launch.kernel));
}

Result<int64_t> GpuProgram::cold_sets() const {
  const auto inputs = static_cast<double>(std::max<int64_t>(1, manifest_.bytes(BufferRole::Input)));
  const auto results =
      static_cast<double>(manifest_.bytes(BufferRole::Intermediate) + manifest_.bytes(BufferRole::Output));
  const double wanted = std::ceil(kTimesL2 * static_cast<double>(device_.l2_bytes()) / inputs);
  STRATA_TRY(const int64_t free, device_.free_bytes());
  const double fitting = std::floor(kMemoryShare * static_cast<double>(free) / (inputs + results));
  return std::max<int64_t>(1, static_cast<int64_t>(std::min(std::clamp<double>(wanted, 2, kMostSets), fitting)));
}

Result<double> GpuProgram::microseconds(std::span<const GpuBuffers> sets) const {
  return replayed_microseconds(device_, std::ssize(sets),
                               [&](int64_t set) { return launch(sets[static_cast<size_t>(set)]); });
}

}  // namespace strata
