#include "runtime/device_probe.h"

#include <dlfcn.h>

#include <array>

namespace strata {

DeviceProbe probe_device() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return {nullptr, "no GPU: the CUDA driver (libcuda.so.1) is not installed"};
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto get = reinterpret_cast<int (*)(int*, int)>(dlsym(driver, "cuDeviceGet"));
  const auto attribute = reinterpret_cast<int (*)(int*, int, int)>(dlsym(driver, "cuDeviceGetAttribute"));
  const auto name = reinterpret_cast<int (*)(char*, int, int)>(dlsym(driver, "cuDeviceGetName"));
  int device = 0;
  if (!init || !get || !attribute || !name || init(0) != 0 || get(&device, 0) != 0) {
    return {nullptr, "no GPU: the CUDA driver finds no device"};
  }
  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of the driver's interface.
  constexpr int kMajor = 75;
  constexpr int kMinor = 76;
  int major = 0;
  int minor = 0;
  std::array<char, 128> text{};
  attribute(&major, kMajor, device);
  attribute(&minor, kMinor, device);
  name(text.data(), static_cast<int>(text.size()), device);
  const std::string finding = fmt::format("{}, compute capability {}.{}", text.data(), major, minor);
  // sm_90a code runs on 9.0 alone; sm_80 code on 8.x.
  const auto found = major == 9 && minor == 0 ? find_target("sm_90a") : find_target("sm_80");
  if (major != 8 && !(major == 9 && minor == 0)) return {nullptr, finding + ", is not supported yet"};
  return {*found, finding};
}

}  // namespace strata
