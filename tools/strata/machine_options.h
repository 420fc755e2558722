// Which machine a command plans for: a target, with the rates that were measured on this machine's GPU if there are
// any.
#pragma once

#include <string>

#include "machine/target.h"
#include "runtime/device_probe.h"

namespace strata::cli {

/// The folder of the cache that `--cache` and `--no-cache` name; empty for none.
std::string cache_folder(const std::string& named, bool no_cache);

/// The target, with the rates of the folder's calibration where the machine's GPU is of the target and has one. What is
/// wrong with the file is one notice.
Target machine_of(const Target& target, const std::string& folder, const DeviceProbe& probe);
/// The same; the driver is opened only where the folder has calibrations.
Target machine_of(const Target& target, const std::string& folder);

}  // namespace strata::cli
