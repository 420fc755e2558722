// The machine's first GPU and its memory. Whatever a kernel does wrong happens in this process, and some faults leave
// its context unusable: measure.h does all this in a process of its own.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/cuda_driver.h"
#include "runtime/library_work.h"
#include "runtime/prepared_work.h"

namespace strata {

/// The first GPU, with its primary context current on the thread that opened it, and a stream.
class GpuDevice {
 public:
  /// Error (Environment) where there is no driver or no GPU.
  static Result<std::unique_ptr<GpuDevice>> open();
  ~GpuDevice();
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  const CudaDriver& driver() const { return driver_; }
  CudaStream stream() const { return stream_; }
  CudaContext context() const { return context_; }
  const std::string& name() const { return name_; }
  int driver_version() const { return version_; }  ///< 13000 for CUDA 13.0
  int64_t l2_bytes() const { return l2_bytes_; }
  Result<int64_t> free_bytes() const;
  /// Of CudaDriver's numbers of attributes.
  Result<int> attribute(int number, std::string_view what) const;
  /// Waits for all work; the errors of kernels come out here.
  Result<void> synchronize() const;
  /// Work on this device by the library that does it, which is opened when it is first asked for. Error (Environment)
  /// where it is missing, (Unsupported) where it does not take the work.
  Result<std::unique_ptr<PreparedWork>> prepare(const LibraryWork& work) const;

 private:
  GpuDevice() = default;

  CudaDriver driver_{};
  CudaDevice device_ = 0;
  CudaContext context_ = nullptr;  ///< null until it is retained
  CudaStream stream_ = nullptr;
  std::string name_;
  int version_ = 0;
  int64_t l2_bytes_ = 0;
  mutable std::unique_ptr<ProductLibrary> products_;
  mutable std::unique_ptr<ConvolutionLibrary> convolutions_;
  mutable std::unique_ptr<FftLibrary> ffts_;
  mutable std::unique_ptr<SolverLibrary> solvers_;
};

/// A point of the device's stream; the device must outlive it.
class GpuEvent {
 public:
  explicit GpuEvent(const GpuDevice& device) : device_(&device) {}
  ~GpuEvent();
  GpuEvent(GpuEvent&& other) noexcept;
  GpuEvent& operator=(GpuEvent&&) = delete;

  /// Puts it on the stream, after what is there.
  Result<void> record();
  /// Waits for `end`; the errors of kernels come out here. Both have been recorded.
  Result<double> microseconds_until(const GpuEvent& end) const;

 private:
  const GpuDevice* device_;
  CudaEvent event_ = nullptr;
};

/// Bytes in device memory that somebody else owns.
class GpuArray {
 public:
  GpuArray(const GpuDevice& device, CudaPointer pointer, int64_t bytes)
      : device_(&device), pointer_(pointer), bytes_(bytes) {}

  CudaPointer pointer() const { return pointer_; }
  int64_t bytes() const { return bytes_; }
  /// `bytes` must be as long as the array.
  Result<void> upload(std::string_view bytes) const;
  Result<std::string> download() const;
  /// The same into host memory of this many bytes.
  Result<void> download(void* to) const;
  Result<void> copy_from(const GpuArray& other) const;
  /// Fills it with 0xFF, which is NaN in every type: what no kernel writes shows.
  Result<void> poison() const;
  /// Fills it with 0.
  Result<void> clear() const;

 protected:
  Result<void> fill(unsigned char byte) const;

  const GpuDevice* device_;
  CudaPointer pointer_;
  int64_t bytes_;
};

/// Device memory; the device must outlive it.
class GpuMemory : public GpuArray {
 public:
  /// At least one byte.
  static Result<GpuMemory> allocate(const GpuDevice& device, int64_t bytes);
  GpuMemory(GpuMemory&& other) noexcept;
  GpuMemory& operator=(GpuMemory&& other) noexcept;
  ~GpuMemory();

 private:
  using GpuArray::GpuArray;
};

/// Pinned memory of the host, all 0 at first, which kernels read and write at the same address; the device must outlive
/// it.
class PinnedMemory {
 public:
  static Result<PinnedMemory> allocate(const GpuDevice& device, size_t bytes);
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;
  ~PinnedMemory();

  unsigned char* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  PinnedMemory(const GpuDevice& device, unsigned char* data, size_t bytes)
      : device_(&device), data_(data), bytes_(bytes) {}

  const GpuDevice* device_;
  unsigned char* data_;
  size_t bytes_;
};

}  // namespace strata
