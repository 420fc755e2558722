#include "runtime/cuda_libraries.h"

#include <dlfcn.h>

#include <cstdlib>

#include "runtime/compile.h"
#include "runtime/cublas_lt.h"
#include "runtime/nv_jit_link.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// cuDNN is shown, and not used yet.
Result<std::string> cudnn_version() {
  const CudaLibraryFiles files{"cuDNN", "STRATA_CUDNN", {"libcudnn.so.9"}, "install cuDNN 9"};
  STRATA_TRY(void* library, open_cuda_library(files));
  FunctionBinder binder(library);
  size_t (*version)() = nullptr;
  binder.bind(version, {"cudnnGetVersion"});
  STRATA_CHECK(check_complete(binder, files));
  const size_t number = version();
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace

void* FunctionBinder::find(const char* name) const { return dlsym(library_, name); }

std::vector<fs::path> cuda_roots() {
  std::vector<fs::path> roots;
  for (const char* variable : {"STRATA_CUDA_ROOT", "CUDA_HOME", "CUDA_PATH"}) {
    if (const char* value = std::getenv(variable); value != nullptr && *value != '\0') roots.emplace_back(value);
  }
  roots.emplace_back("/usr/local/cuda");
  // The project's own environment: above the executable, or where the user stands.
  std::error_code ignored;
  std::vector<fs::path> starts{fs::current_path(ignored)};
  const fs::path executable = fs::read_symlink("/proc/self/exe", ignored);
  if (!executable.empty()) starts.push_back(executable.parent_path());
  for (fs::path folder : starts) {
    for (int up = 0; up < 5 && !folder.empty(); ++up, folder = folder.parent_path()) {
      const fs::path libraries = folder / ".venv" / "lib";
      for (const auto& entry : fs::directory_iterator(libraries, ignored)) {
        for (const char* wheel : {"cu13", "cudnn"}) roots.push_back(entry.path() / "site-packages" / "nvidia" / wheel);
      }
    }
  }
  return roots;
}

std::vector<fs::path> library_folders(const fs::path& root) {
  return {root / "lib64", root / "lib", root / "targets/x86_64-linux/lib"};
}

Result<void*> open_cuda_library(const CudaLibraryFiles& files) {
  const auto load = [](const std::string& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); };
  const char* chosen = std::getenv(files.variable);
  if (chosen != nullptr && *chosen != '\0') {
    if (void* library = load(chosen); library != nullptr) return library;
    return tl::unexpected(Error{ErrorCode::Environment,
                                fmt::format("{} ({}) cannot be loaded", files.name, chosen),
                                fmt::format("let {} name the library, or unset it", files.variable),
                                {}});
  }
  // What is there but does not load says why; a library that is nowhere needs no more words than that.
  std::string refusal;
  for (const fs::path& root : cuda_roots()) {
    for (const fs::path& folder : library_folders(root)) {
      for (const std::string& file : files.files) {
        const fs::path path = folder / file;
        if (!fs::exists(path)) continue;
        if (void* library = load(path.string()); library != nullptr) return library;
        if (const char* text = dlerror(); text != nullptr && refusal.empty()) refusal = fmt::format(": {}", text);
      }
    }
  }
  for (const std::string& file : files.files) {
    if (void* library = load(file); library != nullptr) return library;
  }
  return tl::unexpected(Error{ErrorCode::Environment,
                              refusal.empty() ? fmt::format("{} ({}) was not found", files.name, files.files.front())
                                              : fmt::format("{} cannot be loaded{}", files.name, refusal),
                              std::string(files.remedy),
                              {}});
}

Result<void> check_complete(const FunctionBinder& binder, const CudaLibraryFiles& files) {
  if (binder.missing().empty()) return {};
  return tl::unexpected(Error{ErrorCode::Environment,
                              fmt::format("{} has no function {}", files.name, binder.missing()),
                              std::string(files.remedy),
                              {}});
}

std::vector<CudaLibraryProbe> probe_cuda_libraries() {
  std::vector<CudaLibraryProbe> probes;
  const auto add = [&](const char* name, const Result<std::string>& version) {
    probes.push_back({name, version ? *version : "", version ? "" : version.error().message});
  };
  add("NVRTC", nvrtc_version());
  add("nvJitLink", nv_jit_link_version());
  add("cuBLASLt", cublas_lt_version());
  add("cuDNN", cudnn_version());
  return probes;
}

std::string describe(const std::vector<CudaLibraryProbe>& libraries) {
  std::string present;
  std::string missing;
  for (const CudaLibraryProbe& library : libraries) {
    if (library.missing.empty()) {
      present += fmt::format("{}{} {}", present.empty() ? "" : ", ", library.name, library.version);
    } else {
      missing += (missing.empty() ? "" : "; ") + library.missing;
    }
  }
  if (missing.empty()) return present;
  return fmt::format("{}{}missing: {}", present, present.empty() ? "" : "; ", missing);
}

}  // namespace strata
