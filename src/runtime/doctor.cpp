#include "runtime/doctor.h"

#include <fmt/format.h>
#include <link.h>

#include <utility>

#include "runtime/cuda_libraries.h"
#include "runtime/device_probe.h"
#include "runtime/gpu_device.h"
#include "runtime/own_file.h"
#include "runtime/result_cache.h"

namespace strata {
namespace {

struct Sought {
  std::string stem;
  std::string path;
};

int visit(dl_phdr_info* object, size_t, void* sought) {
  auto& of = *static_cast<Sought*>(sought);
  const std::string path = object->dlpi_name;
  if (path.find("/" + of.stem) == std::string::npos) return 0;
  of.path = path;
  return 1;
}

Finding gpu_finding() {
  Finding finding{"GPU", {}, {}, {}, "running kernels; measuring candidates of a search"};
  const auto device = GpuDevice::open();
  if (!device) {
    finding.missing = device.error().message + (device.error().remedy.empty() ? "" : "\n" + device.error().remedy);
    return finding;
  }
  const auto architecture = architecture_of(**device);
  const int driver = (*device)->driver_version();
  finding.version = fmt::format("{}, {}, driver for CUDA {}.{}", (*device)->name(),
                                architecture ? *architecture : "not supported", driver / 1000, driver / 10 % 100);
  finding.path = path_of_library("libcuda.so");
  if (!architecture) finding.missing = architecture.error().message;
  return finding;
}

}  // namespace

std::string path_of_library(const std::string& stem) {
  Sought sought{stem, {}};
  dl_iterate_phdr(visit, &sought);
  return sought.path;
}

std::vector<Finding> examine_machine() {
  std::vector<Finding> findings{
      {"Strata", build_identity(), own_file().string(), {}, "the build of this file: each of a build has its own"},
      gpu_finding()};
  const std::vector<std::pair<const char*, const char*>> uses{
      {"libnvrtc.so", "cubins of searched kernels (without it: their source)"},
      {"libnvJitLink.so", "cubins of HLO kernels (without it: the driver compiles them when they are loaded)"},
      {"libcublasLt.so", "matrix products by the library (without it: generated kernels)"},
      {"libcudnn.so", "convolutions by the library (without it: generated kernels)"},
      {"libcufft.so", "Fourier transforms on the GPU (without it: on the host)"},
      {"libcusolver.so", "factors of matrices by the library (without it: generated loops)"},
      {"libcublas.so", "triangular solves by the library (without it: generated loops)"}};
  const std::vector<CudaLibraryProbe> probes = probe_cuda_libraries();
  for (size_t i = 0; i < probes.size(); ++i) {
    findings.push_back(
        {probes[i].name, probes[i].version, path_of_library(uses[i].first), probes[i].missing, uses[i].second});
  }
  return findings;
}

std::string describe(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{:<10} {}\n", finding.name, finding.version.empty() ? "missing" : finding.version);
    std::string missing = finding.missing;
    for (size_t at = 0; (at = missing.find('\n', at)) != std::string::npos; at += 12)
      missing.replace(at, 1, "\n           ");
    if (!missing.empty()) text += fmt::format("{:<10} {}\n", "", missing);
    if (!finding.path.empty()) text += fmt::format("{:<10} {}\n", "", finding.path);
    if (!finding.enables.empty()) text += fmt::format("{:<10} for {}\n", "", finding.enables);
  }
  return text;
}

}  // namespace strata
