// The mega-kernel's device on the host: memory that launches and this process share, and launches of kernels, each a
// process of its own. Whatever a kernel does wrong ends its process and is said here.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "megakernel/fibers/fiber_code.h"
#include "megakernel/fibers/process.h"

namespace strata::megakernel {

class FiberMemory;

class FiberDevice {
 public:
  /// Error (Environment) where the system gives no such memory.
  static Result<std::unique_ptr<FiberDevice>> open();
  ~FiberDevice();
  FiberDevice(const FiberDevice&) = delete;
  FiberDevice& operator=(const FiberDevice&) = delete;

  /// Memory that is 0 at first, at a multiple of 1024 bytes; the device must outlive it. Error (Environment) where the
  /// machine has not so much.
  Result<FiberMemory> allocate(int64_t bytes);
  /// Of the threads of launches from now on: forward, backward, or a number (strata_host_threads.h).
  void set_order(std::string order) { order_ = std::move(order); }

  /// Starts a kernel of a program, with addresses in device memory, or numbers, as arguments.
  Result<Process> start(const FiberCode& code, const std::string& kernel, std::array<int64_t, 3> grid, int64_t threads,
                        int64_t shared_bytes, std::span<const uint64_t> arguments) const;
  /// Where this process has what lies at an address of device memory.
  unsigned char* here(uint64_t address) const { return base_ + (address - kPlace); }

 private:
  friend class FiberMemory;
  /// Of all device memory in launches; what lies there in a process is nobody's elsewhere.
  static constexpr uint64_t kPlace = uint64_t{1} << 45;
  static constexpr uint64_t kBytes = uint64_t{1} << 36;  ///< addresses, of which those in use take memory

  FiberDevice(OpenFile file, unsigned char* base) : file_(std::move(file)), base_(base) {}
  void free(uint64_t address, uint64_t bytes);

  OpenFile file_;
  unsigned char* base_;
  uint64_t next_ = 0;  ///< addresses are not used again
  uint64_t used_ = 0;
  std::string order_ = "forward";
};

/// Device memory with an owner.
class FiberMemory {
 public:
  FiberMemory(FiberMemory&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)), address_(other.address_), bytes_(other.bytes_) {}
  FiberMemory& operator=(FiberMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~FiberMemory() {
    if (device_ != nullptr) device_->free(address_, bytes_);
  }

  uint64_t address() const { return address_; }
  std::span<unsigned char> bytes() const { return {device_->here(address_), bytes_}; }

 private:
  friend class FiberDevice;
  FiberMemory(FiberDevice* device, uint64_t address, uint64_t bytes)
      : device_(device), address_(address), bytes_(bytes) {}

  FiberDevice* device_;
  uint64_t address_;
  uint64_t bytes_;
};

}  // namespace strata::megakernel
