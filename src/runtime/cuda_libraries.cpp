#include "runtime/cuda_libraries.h"

#include <dlfcn.h>

#include <cstdlib>
#include <sstream>

#include "runtime/compile.h"
#include "runtime/cublas_lt.h"
#include "runtime/cudnn.h"
#include "runtime/nv_jit_link.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// The folder of a Python environment ($VIRTUAL_ENV, else that of the first python3 on $PATH); empty where there is
/// none.
fs::path python_environment() {
  if (const char* active = std::getenv("VIRTUAL_ENV"); active != nullptr && *active != '\0') return active;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code ignored;
    if (!folder.empty() && fs::exists(fs::path(folder) / "python3", ignored)) return fs::path(folder).parent_path();
  }
  return {};
}

/// CUDA's libraries among an environment's packages.
void add_packages(const fs::path& environment, std::vector<fs::path>& roots) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(environment / "lib", ignored)) {
    for (const char* wheel : {"cu13", "cudnn"}) {
      const fs::path root = entry.path() / "site-packages" / "nvidia" / wheel;
      if (fs::exists(root, ignored)) roots.push_back(root);
    }
  }
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
      add_packages(folder / ".venv", roots);
    }
  }
  if (const fs::path python = python_environment(); !python.empty()) add_packages(python, roots);
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
