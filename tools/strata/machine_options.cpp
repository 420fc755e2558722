#include "machine_options.h"

#include "notice.h"
#include "runtime/calibration_file.h"
#include "runtime/result_cache.h"

namespace strata::cli {

std::string cache_folder(const std::string& named, bool no_cache) {
  return no_cache ? std::string() : named.empty() ? default_cache_folder() : named;
}

Target machine_of(const Target& target, const std::string& folder, const DeviceProbe& probe) {
  return calibrated_here(target, folder, probe, [](const std::string& text) { notice("note: {}\n", text); });
}

Target machine_of(const Target& target, const std::string& folder) {
  return !folder.empty() && has_calibrations(folder) ? machine_of(target, folder, probe_device()) : target;
}

}  // namespace strata::cli
