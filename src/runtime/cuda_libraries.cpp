#include "runtime/cuda_libraries.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "runtime/compile.h"
#include "runtime/cublas_lt.h"
#include "runtime/cudnn.h"
#include "runtime/cufft.h"
#include "runtime/cusolver.h"
#include "runtime/nv_jit_link.h"
#include "runtime/own_file.h"
#include "support/trusted_path.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// The absolute path that a variable holds; empty where it holds none. A relative one would mean another file in every
/// folder that the user stands in.
fs::path folder_in(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value != '/') return {};
  return value;
}

/// The folder of a Python environment ($VIRTUAL_ENV, else that of the first python3 on $PATH); empty where there is
/// none.
fs::path python_environment() {
  if (fs::path active = folder_in("VIRTUAL_ENV"); !active.empty()) return active;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code ignored;
    const bool absolute = folder.starts_with('/');
    if (absolute && fs::exists(fs::path(folder) / "python3", ignored)) return fs::path(folder).parent_path();
  }
  return {};
}

/// CUDA's libraries among the packages of a folder.
void add_wheels(const fs::path& packages, bool own, std::vector<CudaRoot>& roots) {
  std::error_code ignored;
  for (const char* wheel : {"cu13", "cudnn"}) {
    const fs::path root = packages / "nvidia" / wheel;
    if (fs::exists(root, ignored)) roots.push_back({root, own});
  }
}

/// The same of an environment.
void add_packages(const fs::path& environment, bool own, std::vector<CudaRoot>& roots) {
  std::error_code ignored;
  std::vector<fs::path> pythons;
  for (const auto& entry : fs::directory_iterator(environment / "lib", ignored)) pythons.push_back(entry.path());
  std::sort(pythons.begin(), pythons.end());
  for (const fs::path& python : pythons) add_wheels(python / "site-packages", own, roots);
}

/// Where a root may keep its libraries.
std::vector<fs::path> library_folders(const fs::path& root) {
  return {root / "lib64", root / "lib", root / "targets/x86_64-linux/lib"};
}

std::string last_error(const std::string& path) {
  const char* text = dlerror();
  return text == nullptr ? fmt::format("'{}' does not load", path) : text;
}

}  // namespace

void* FunctionBinder::find(const char* name) const { return dlsym(library_, name); }

std::vector<CudaRoot> roots_of_own_file(const fs::path& file) {
  std::vector<CudaRoot> roots;
  if (!file.is_absolute()) return roots;
  const fs::path folder = file.parent_path();
  const fs::path above = folder.parent_path();
  const std::string packages = above.filename().string();
  if (packages == "site-packages" || packages == "dist-packages") {
    add_wheels(above, true, roots);
    return roots;
  }
  const bool extension = folder.filename() == "strata" && packages == "python";
  if (!extension) add_packages(above, true, roots);
  const fs::path preset = extension ? above.parent_path() : above;
  const bool build_tree = (extension || folder.filename() == "bin") && preset.parent_path().filename() == "build";
  if (build_tree) add_packages(preset.parent_path().parent_path() / ".venv", true, roots);
  return roots;
}

std::vector<CudaRoot> cuda_roots() {
  std::vector<CudaRoot> roots;
  for (const char* variable : {"STRATA_CUDA_ROOT", "CUDA_HOME", "CUDA_PATH"}) {
    if (fs::path folder = folder_in(variable); !folder.empty()) roots.push_back({std::move(folder)});
  }
  roots.push_back({"/usr/local/cuda"});
  for (CudaRoot& root : roots_of_own_file(own_file())) roots.push_back(std::move(root));
  if (const fs::path python = python_environment(); !python.empty()) add_packages(python, false, roots);
  return roots;
}

std::vector<std::string> include_folders(const fs::path& root) {
  std::vector<std::string> folders;
  std::error_code ignored;
  for (const char* folder : {"include", "include/cccl", "targets/x86_64-linux/include"}) {
    if (fs::exists(root / folder, ignored)) folders.push_back((root / folder).string());
  }
  return folders;
}

bool has_header(const fs::path& root, std::string_view header) {
  const auto folders = include_folders(root);
  std::error_code ignored;
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& folder) { return fs::exists(fs::path(folder) / header, ignored); });
}

Result<CudaLibrary> open_cuda_library(const CudaLibraryFiles& files) {
  const auto load = [](const std::string& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); };
  const auto failure = [&](std::string message, std::string remedy) {
    return tl::unexpected(Error{ErrorCode::Environment, std::move(message), std::move(remedy), {}});
  };
  if (const char* value = std::getenv(files.variable); value != nullptr && *value != '\0') {
    const std::string chosen = value;
    if (chosen.front() != '/' && chosen.find('/') != std::string::npos) {
      return failure(fmt::format("{} ({}) is not opened: its path is relative", files.name, chosen),
                     fmt::format("let {} be an absolute path", files.variable));
    }
    if (void* library = load(chosen); library != nullptr) return CudaLibrary{library, {}};
    return failure(fmt::format("{} ({}) cannot be loaded", files.name, chosen),
                   fmt::format("let {} name the library, or unset it", files.variable));
  }
  // What is there but does not load says why; a library that is nowhere needs no more words than that.
  std::string refusal;
  const auto refuse = [&](const std::string& why) {
    if (refusal.empty()) refusal = why;
  };
  const uid_t owner = owner_of(own_file());
  for (const CudaRoot& root : files.in_roots ? cuda_roots() : std::vector<CudaRoot>{}) {
    if (!files.header.empty() && !has_header(root.folder, files.header)) continue;
    for (const fs::path& folder : library_folders(root.folder)) {
      for (const std::string& file : files.files) {
        const fs::path path = folder / file;
        std::error_code ignored;
        if (!fs::exists(path, ignored)) continue;
        if (const std::string why = root.own ? why_not_trusted(path, owner) : std::string(); !why.empty()) {
          refuse(fmt::format("'{}' is not trusted: {}", path.string(), why));
        } else if (void* library = load(path.string()); library != nullptr) {
          return CudaLibrary{library, root.folder};
        } else {
          refuse(last_error(path.string()));
        }
      }
    }
  }
  for (const std::string& file : files.files) {
    if (void* library = load(file); library != nullptr) return CudaLibrary{library, {}};
  }
  return failure(refusal.empty() ? fmt::format("{} ({}) was not found", files.name, files.files.front())
                                 : fmt::format("{} cannot be loaded: {}", files.name, refusal),
                 std::string(files.remedy));
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
  add("cuFFT", cufft_version());
  add("cuSOLVER", cusolver_version());
  add("cuBLAS", cublas_version());
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
