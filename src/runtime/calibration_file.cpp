#include "runtime/calibration_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <filesystem>

#include "support/read_file.h"
#include "support/trusted_path.h"
#include "support/write_file.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "machine-";
constexpr std::string_view kSuffix = ".json";

}  // namespace

std::string calibration_path(const std::string& folder, const std::string& gpu, int driver_version) {
  std::string name;
  for (const char c : gpu) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return fmt::format("{}/{}{}-{}{}", folder, kPrefix, name, driver_version, kSuffix);
}

bool has_calibrations(const std::string& folder) {
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix)) return true;
  }
  return false;
}

Result<std::string> store_calibration(const std::string& folder, const Calibration& calibration) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    return with_remedy(environment("cannot make the folder '{}': {}", folder, failed.message()),
                       "name another with --cache");
  }
  std::string path = calibration_path(folder, calibration.gpu, calibration.driver_version);
  STRATA_CHECK(write_file(path, print(calibration)));
  return path;
}

std::optional<Calibration> find_calibration(const std::string& folder, const std::string& gpu, int driver_version,
                                            std::string_view target,
                                            const std::function<void(const std::string&)>& note) {
  const std::string path = calibration_path(folder, gpu, driver_version);
  std::error_code unknown;
  if (!fs::exists(path, unknown)) return std::nullopt;
  const auto ignored = [&](const std::string& why) {
    if (note) note(fmt::format("the calibration '{}' is not used: {}", path, why));
    return std::nullopt;
  };
  if (const std::string why = why_not_trusted(path, geteuid()); !why.empty()) return ignored(why);
  const Result<std::string> text = read_file(path);
  if (!text) return ignored(text.error().message);
  Result<Calibration> calibration = parse_calibration(*text);
  if (!calibration) return ignored(calibration.error().message);
  if (calibration->gpu != gpu || calibration->driver_version != driver_version)
    return ignored(fmt::format("it is of {}, driver {}", calibration->gpu, calibration->driver_version));
  if (calibration->target != target) return std::nullopt;
  return *std::move(calibration);
}

Target calibrated_here(const Target& target, const std::string& folder, const DeviceProbe& probe,
                       const std::function<void(const std::string&)>& note) {
  if (folder.empty() || probe.target == nullptr || probe.target->name != target.name) return target;
  const auto found = find_calibration(folder, probe.gpu, probe.driver_version, target.name, note);
  return found ? calibrated(target, *found) : target;
}

}  // namespace strata
