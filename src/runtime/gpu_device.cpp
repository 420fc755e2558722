#include "runtime/gpu_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace strata {

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
  STRATA_CHECK(d.driver_.check(d.driver_.context_retain(&d.context_, d.device_), "making a context"));
  STRATA_CHECK(d.driver_.check(d.driver_.context_use(d.context_), "using the context"));
  STRATA_CHECK(d.driver_.check(d.driver_.create_stream(&d.stream_, CudaDriver::kNonBlocking), "making a stream"));
  return made;
}

GpuDevice::~GpuDevice() {
  products_.reset();
  convolutions_.reset();
  ffts_.reset();
  solvers_.reset();
  if (stream_ != nullptr) driver_.destroy_stream(stream_);
  if (context_ != nullptr) driver_.context_release(device_);
}

Result<int64_t> GpuDevice::free_bytes() const {
  size_t free = 0;
  size_t all = 0;
  STRATA_CHECK(driver_.check(driver_.memory_info(&free, &all), "free memory"));
  return static_cast<int64_t>(free);
}

Result<int> GpuDevice::attribute(int number, std::string_view what) const {
  int value = 0;
  STRATA_CHECK(driver_.check(driver_.device_attribute(&value, number, device_), what));
  return value;
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
  const auto* factor = std::get_if<MatrixFactor>(&work);
  const auto* solve = std::get_if<MatrixSolve>(&work);
  const auto* spectrum = std::get_if<MatrixSpectrum>(&work);
  if (factor != nullptr || solve != nullptr || spectrum != nullptr) {
    if (!solvers_) {
      STRATA_TRY(solvers_, SolverLibrary::open(driver_));
    }
    if (spectrum != nullptr) return strata::prepare(*solvers_, *spectrum);
    return factor != nullptr ? strata::prepare(*solvers_, *factor) : strata::prepare(*solvers_, *solve);
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

// Copies and fills are not ordered with the stream of the launches, which waits for no other: they wait for themselves.
Result<void> GpuArray::upload(std::string_view bytes) const {
  if (bytes.empty()) return {};
  const CudaDriver& driver = device_->driver();
  STRATA_CHECK(driver.check(driver.copy_to_device(pointer_, bytes.data(), bytes.size()), "copying to the device"));
  return device_->synchronize();
}

Result<void> GpuArray::download(void* to) const {
  STRATA_CHECK(device_->synchronize());
  if (bytes_ == 0) return {};
  const CudaDriver& driver = device_->driver();
  return driver.check(driver.copy_to_host(to, pointer_, static_cast<size_t>(bytes_)), "copying from the device");
}

Result<std::string> GpuArray::download() const {
  std::string bytes(static_cast<size_t>(bytes_), '\0');
  STRATA_CHECK(download(bytes.data()));
  return bytes;
}

Result<void> GpuArray::copy_from(const GpuArray& other) const {
  if (bytes_ == 0) return {};
  const CudaDriver& driver = device_->driver();
  STRATA_CHECK(driver.check(driver.copy_on_device(pointer_, other.pointer_, static_cast<size_t>(bytes_)), "copying"));
  return device_->synchronize();
}

Result<void> GpuArray::poison() const { return fill(0xFF); }

Result<void> GpuArray::clear() const { return fill(0); }

Result<void> GpuArray::fill(unsigned char byte) const {
  if (bytes_ == 0) return {};
  const CudaDriver& driver = device_->driver();
  STRATA_CHECK(driver.check(driver.fill(pointer_, byte, static_cast<size_t>(bytes_)), "filling memory"));
  return device_->synchronize();
}

Result<GpuMemory> GpuMemory::allocate(const GpuDevice& device, int64_t bytes) {
  CudaPointer pointer = 0;
  const CudaDriver& driver = device.driver();
  STRATA_CHECK(driver.check(driver.allocate(&pointer, static_cast<size_t>(std::max<int64_t>(bytes, 1))),
                            fmt::format("allocating {} bytes", bytes)));
  return GpuMemory(device, pointer, bytes);
}

GpuMemory::GpuMemory(GpuMemory&& other) noexcept
    : GpuArray(*other.device_, std::exchange(other.pointer_, 0), other.bytes_) {}

GpuMemory& GpuMemory::operator=(GpuMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(pointer_, other.pointer_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

GpuMemory::~GpuMemory() {
  if (pointer_ != 0) device_->driver().release(pointer_);
}

Result<PinnedMemory> PinnedMemory::allocate(const GpuDevice& device, size_t bytes) {
  void* data = nullptr;
  const CudaDriver& driver = device.driver();
  STRATA_CHECK(driver.check(driver.allocate_host(&data, std::max<size_t>(bytes, 1), CudaDriver::kMapped),
                            fmt::format("allocating {} bytes of pinned memory", bytes)));
  std::memset(data, 0, bytes);
  return PinnedMemory(device, static_cast<unsigned char*>(data), bytes);
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : device_(other.device_), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) device_->driver().release_host(data_);
}

}  // namespace strata
