#include "runtime/device_probe.h"

#include <array>

#include "runtime/cuda_driver.h"
#include "runtime/cuda_libraries.h"
#include "runtime/gpu_device.h"

namespace strata {

DeviceProbe probe_device() {
  const auto driver = open_cuda_driver();
  if (!driver) return {nullptr, "no GPU: " + driver.error().message, {}};
  CudaDevice device = 0;
  if (driver->init(0) != 0 || driver->device_get(&device, 0) != 0) {
    return {nullptr, "no GPU: the CUDA driver finds no device", {}};
  }
  int major = 0;
  int minor = 0;
  std::array<char, 128> text{};
  driver->device_attribute(&major, CudaDriver::kCapabilityMajor, device);
  driver->device_attribute(&minor, CudaDriver::kCapabilityMinor, device);
  driver->device_name(text.data(), static_cast<int>(text.size()), device);
  const std::string finding = fmt::format("{}, compute capability {}.{}", text.data(), major, minor);
  const Target* const found = target_of_capability(major, minor);
  if (found == nullptr) return {nullptr, finding + ", is not supported yet", {}};
  int version = 0;
  driver->driver_version(&version);
  return {found, finding, describe(probe_cuda_libraries()), text.data(), version};
}

Result<std::string> architecture_of(const GpuDevice& device) {
  int major = 0;
  int minor = 0;
  const CudaDriver& driver = device.driver();
  STRATA_CHECK(driver.check(driver.device_attribute(&major, CudaDriver::kCapabilityMajor, 0), "the architecture"));
  STRATA_CHECK(driver.check(driver.device_attribute(&minor, CudaDriver::kCapabilityMinor, 0), "the architecture"));
  if (const Target* const found = target_of_capability(major, minor)) return std::string(found->name);
  return unsupported("{} is of architecture {}.{}; kernels are made for 8.x and 9.0", device.name(), major, minor);
}

/// sm_90a code runs on 9.0 alone; sm_80 code on 8.x.
const Target* target_of_capability(int major, int minor) {
  if (major == 9 && minor == 0) return *find_target("sm_90a");
  return major == 8 ? *find_target("sm_80") : nullptr;
}

Result<const Target*> or_auto(Result<const Target*> found) {
  if (!found && found.error().code == ErrorCode::InvalidInput)
    found.error().remedy += ", or auto for the machine's GPU";
  return found;
}

}  // namespace strata
