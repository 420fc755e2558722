// A compiled program on the machine's first GPU: its memory, its launches and its times. Whatever a kernel does wrong
// happens in this process, and some faults leave its context unusable: measure.h does all this in a process of its own.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda_driver.h"
#include "runtime/launch_manifest.h"

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
  const std::string& name() const { return name_; }
  int driver_version() const { return version_; }  ///< 13000 for CUDA 13.0
  int64_t l2_bytes() const { return l2_bytes_; }
  Result<int64_t> free_bytes() const;
  /// Waits for all work; the errors of kernels come out here.
  Result<void> synchronize() const;
  /// Work on this device by the library that does it, which is opened when it is first asked for. Error (Environment)
  /// where it is missing, (Unsupported) where it does not take the work.
  Result<std::unique_ptr<PreparedWork>> prepare(const LibraryWork& work) const;

 private:
  GpuDevice() = default;

  CudaDriver driver_{};
  CudaDevice device_ = 0;
  bool retained_ = false;
  CudaStream stream_ = nullptr;
  std::string name_;
  int version_ = 0;
  int64_t l2_bytes_ = 0;
  mutable std::unique_ptr<ProductLibrary> products_;
  mutable std::unique_ptr<ConvolutionLibrary> convolutions_;
  mutable std::unique_ptr<FftLibrary> ffts_;
};

/// A point of the device's stream; the device must outlive it.
class GpuEvent {
 public:
  explicit GpuEvent(const GpuDevice& device) : device_(&device) {}
  ~GpuEvent();
  GpuEvent(GpuEvent&& other) noexcept;
  GpuEvent& operator=(GpuEvent&&) = delete;

  /// Puts it behind what is on the stream.
  Result<void> record();
  /// Waits for `end`; the errors of kernels come out here. Both have been recorded.
  Result<double> microseconds_until(const GpuEvent& end) const;

 private:
  const GpuDevice* device_;
  CudaEvent event_ = nullptr;
};

/// Device memory; the device must outlive it.
class GpuMemory {
 public:
  static Result<GpuMemory> allocate(const GpuDevice& device, int64_t bytes);
  GpuMemory(GpuMemory&& other) noexcept;
  GpuMemory& operator=(GpuMemory&& other) noexcept;
  ~GpuMemory();

  CudaPointer pointer() const { return pointer_; }
  int64_t bytes() const { return bytes_; }
  /// `bytes` must be as long as the memory.
  Result<void> upload(const std::string& bytes);
  Result<std::string> download() const;
  Result<void> copy_from(const GpuMemory& other);
  /// Fills it with 0xFF, which is NaN in every type: what no kernel writes shows.
  Result<void> poison();
  /// Fills it with 0.
  Result<void> clear();

 private:
  GpuMemory(const GpuDevice* device, CudaPointer pointer, int64_t bytes)
      : device_(device), pointer_(pointer), bytes_(bytes) {}
  Result<void> fill(unsigned char byte);

  const GpuDevice* device_;
  CudaPointer pointer_;
  int64_t bytes_;
};

/// One memory for each buffer of a program, by name.
using GpuBuffers = std::map<std::string, GpuMemory>;
/// The same where the memory is somebody else's.
using GpuPointers = std::map<std::string, CudaPointer>;

class GpuProgram {
 public:
  /// The device must outlive it. Error where the driver does not take the cubin, a kernel or its shared memory, or
  /// a library is missing or does not take its work.
  static Result<std::unique_ptr<GpuProgram>> load(const GpuDevice& device, const std::string& cubin,
                                                  LaunchManifest manifest);
  ~GpuProgram();
  GpuProgram(const GpuProgram&) = delete;
  GpuProgram& operator=(const GpuProgram&) = delete;

  const LaunchManifest& manifest() const { return manifest_; }
  /// All buffers: counters cleared, the others poisoned.
  Result<GpuBuffers> allocate() const;
  /// Puts all launches on the device's stream and does not wait.
  Result<void> launch(const GpuBuffers& buffers) const;
  /// `overlaps_first`: whether the first launch may do what the manifest says: what is on the stream before it is a
  /// kernel, which lets others start and waits as those of the manifest do.
  Result<void> launch(const GpuPointers& buffers, bool overlaps_first = true) const;
  /// How many sets of buffers a cold measurement goes through: so many that their inputs exceed the L2 cache four
  /// times, 2 to 64, less where memory is short.
  Result<int64_t> cold_sets() const;
  /// Microseconds of one run of all launches, with each set in turn (replay.h).
  Result<double> microseconds(std::span<const GpuBuffers> sets) const;

 private:
  GpuProgram(const GpuDevice& device, LaunchManifest manifest) : device_(device), manifest_(std::move(manifest)) {}

  const GpuDevice& device_;
  LaunchManifest manifest_;
  /// A kernel of the module, or a library's work.
  struct Step {
    CudaFunction function = nullptr;
    std::unique_ptr<PreparedWork> work;
  };
  Result<CudaFunction> find_kernel(const GpuLaunch& launch) const;
  Result<void> launch_kernel(const GpuLaunch& launch, CudaFunction function, std::vector<CudaPointer>& pointers,
                             bool overlaps) const;

  CudaModule module_ = nullptr;
  std::vector<Step> steps_;             ///< by launch
  std::optional<GpuMemory> workspace_;  ///< of all libraries' work: it is done one after the other
};

}  // namespace strata
