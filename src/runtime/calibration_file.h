// Where calibrations lie: in the cache's folder, one file for each GPU and driver.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "machine/calibration.h"
#include "runtime/device_probe.h"

namespace strata {

/// FOLDER/machine-GPU-DRIVER.json, with what is neither letter nor digit of the GPU's name as '_'.
std::string calibration_path(const std::string& folder, const std::string& gpu, int driver_version);

/// Whether a folder has calibrations of any GPU: else the driver need not be opened to know which one there is.
bool has_calibrations(const std::string& folder);

/// Writes it, replacing an older one of the same GPU and driver; the folder is made. Its path. Error (Environment).
Result<std::string> store_calibration(const std::string& folder, const Calibration& calibration);

/// That of this GPU and driver for this target; none where there is no file. One that is damaged, of another version,
/// of another GPU, or that others may write is none either; `note` gets one line that says why.
std::optional<Calibration> find_calibration(const std::string& folder, const std::string& gpu, int driver_version,
                                            std::string_view target,
                                            const std::function<void(const std::string&)>& note);

/// The target with the rates of the folder's calibration, where the GPU that was found is of the target and has one; as
/// it is without a folder.
Target calibrated_here(const Target& target, const std::string& folder, const DeviceProbe& probe,
                       const std::function<void(const std::string&)>& note);

}  // namespace strata
