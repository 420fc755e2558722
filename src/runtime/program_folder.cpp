#include "runtime/program_folder.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "support/read_file.h"
#include "support/write_file.h"

namespace strata {
namespace {

constexpr const char* kManifest = "program.json";
constexpr const char* kOptimized = "best.launch.json";
constexpr const char* kGraph = "best.strata";
constexpr const char* kConstants = "constants.bin";

std::string in(const std::string& folder, const std::string& file) {
  return (std::filesystem::path(folder) / file).string();
}

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

bool is_cubin(const std::string& image) {
  return image.starts_with(
      "\x7f"
      "ELF");
}

/// A name that is no path: a manifest that was read must not lead out of its folder.
Result<void> check_module_name(const std::string& name) {
  const bool plain = !name.empty() && name.find_first_of("/\\") == std::string::npos && name[0] != '.';
  if (!plain) return invalid("'{}' is no name of a module", name);
  return {};
}

Result<std::string> read_module(const std::string& folder, const std::string& name, const std::string& arch) {
  if (name.empty()) {
    const std::string path = in(folder, fmt::format("best.{}.cubin", arch));
    if (is_file(path)) return read_file(path);
    return with_remedy(environment("'{}' has no cubin for {}", folder, arch),
                       "optimize again where NVRTC is installed (docs/runtime.md)");
  }
  STRATA_CHECK(check_module_name(name));
  for (const char* kind : {".cubin", ".ptx"}) {
    const std::string path = in(folder, name + kind);
    if (is_file(path)) return read_file(path);
  }
  return environment("'{}' has neither {}.cubin nor {}.ptx", folder, name, name);
}

}  // namespace

std::optional<std::string> manifest_in(const std::string& folder) {
  for (const char* file : {kManifest, kOptimized}) {
    if (is_file(in(folder, file))) return in(folder, file);
  }
  return std::nullopt;
}

std::optional<std::string> graph_in(const std::string& folder) {
  std::string path = in(folder, kGraph);
  return is_file(path) ? std::optional(std::move(path)) : std::nullopt;
}

Result<std::string> check_manifest_in(const std::string& folder) {
  if (const auto path = manifest_in(folder)) return *path;
  return with_remedy(environment("'{}' has neither {} nor {}", folder, kManifest, kOptimized),
                     "strata emit MODULE --output FOLDER, or strata optimize PROGRAM -o FOLDER, writes one");
}

Result<void> write_program(const ProgramImage& image, const std::string& folder) {
  STRATA_TRY(const std::string manifest, print(image.manifest));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return environment("the folder '{}' cannot be made: {}", folder, error.message());
  for (const auto& [name, module] : image.modules) {
    STRATA_CHECK(check_module_name(name));
    STRATA_CHECK(write_file(in(folder, name + (is_cubin(module) ? ".cubin" : ".ptx")), module));
  }
  if (!image.constants.empty()) STRATA_CHECK(write_file(in(folder, kConstants), image.constants));
  // Last: a folder with a manifest is whole.
  return write_file(in(folder, kManifest), manifest);
}

Result<ProgramImage> read_program(const std::string& folder, const std::string& arch) {
  STRATA_TRY(const std::string path, check_manifest_in(folder));
  ProgramImage image;
  STRATA_TRY(const std::string text, read_file(path));
  STRATA_TRY(image.manifest, parse_launch_manifest(text));
  const std::string& target = image.manifest.target;
  if (!target.empty() && target != arch) {
    return with_remedy(invalid("'{}' holds code for {}, and the GPU is {}", folder, target, arch),
                       fmt::format("strata emit --target {} makes code for it", arch));
  }
  std::set<std::string> names;
  for_each_step(image.manifest.steps, [&](const GpuStep& step) {
    if (const GpuLaunch* launch = step.launch(); launch != nullptr && !launch->library) names.insert(launch->module);
  });
  for (const std::string& name : names) {
    STRATA_TRY(image.modules[name], read_module(folder, name, arch));
  }
  if (image.manifest.bytes(BufferRole::Constant) > 0) {
    STRATA_TRY(image.constants, read_file(in(folder, kConstants)));
  }
  return image;
}

}  // namespace strata
