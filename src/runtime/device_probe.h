// Whether there is a GPU, without needing CUDA to be installed: the driver's library is opened at run time.
#pragma once

#include <optional>
#include <string>

#include "machine/target.h"
#include "support/error.h"

namespace strata {

class GpuDevice;

struct DeviceProbe {
  const Target* target = nullptr;  ///< of the first GPU; null where there is none or it is unknown
  std::string finding;             ///< one line for the user: the device, or why there is none
  std::string libraries;           ///< one line: CUDA's libraries and those that are missing; empty without a GPU
  std::string gpu;                 ///< its name alone
  int driver_version = 0;          ///< 13000 for CUDA 13.0
};

DeviceProbe probe_device();

/// The architecture of the GPU as kernels and libraries are asked for it: "sm_90a". Error (Unsupported) where no target
/// is as old.
Result<std::string> architecture_of(const GpuDevice& device);

/// What was found by a name that the user wrote where `auto`, the machine's GPU, is taken too: an error says so.
Result<const Target*> or_auto(Result<const Target*> found);

/// That whose code runs on a GPU of this compute capability; null: none.
const Target* target_of_capability(int major, int minor);

}  // namespace strata
