#include "runtime/compile.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

namespace strata {
namespace {

namespace fs = std::filesystem;

/// The part of NVRTC's C interface that is used here; see the NVRTC documentation.
struct Nvrtc {
  using Program = void*;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(Program, int, const char* const*);
  int (*destroy)(Program*);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*cubin_size)(Program, size_t*);
  int (*cubin)(Program, char*);
  const char* (*error_text)(int);
  std::vector<std::string> include_directories;
};

/// Folders that may hold a CUDA toolkit or the wheels that stand in for one, best first.
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
        roots.push_back(entry.path() / "site-packages" / "nvidia" / "cu13");
      }
    }
  }
  return roots;
}

template <class Function>
bool resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

/// Opened once; never closed, because its threads may outlive any owner.
Result<Nvrtc> open_nvrtc() {
  std::string looked;
  for (const fs::path& root : cuda_roots()) {
    std::vector<std::string> includes;
    for (const char* folder : {"include", "include/cccl", "targets/x86_64-linux/include"}) {
      if (fs::exists(root / folder)) includes.push_back((root / folder).string());
    }
    const bool headers = std::any_of(includes.begin(), includes.end(),
                                     [](const std::string& i) { return fs::exists(i + "/cuda_fp16.h"); });
    looked += (looked.empty() ? "" : ", ") + root.string();
    if (!headers) continue;
    for (const char* folder : {"lib64", "lib", "targets/x86_64-linux/lib"}) {
      for (const char* file : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) {
        const fs::path path = root / folder / file;
        if (!fs::exists(path)) continue;
        void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) continue;
        Nvrtc nvrtc{};
        nvrtc.include_directories = includes;
        const bool complete = resolve(library, "nvrtcCreateProgram", nvrtc.create) &&
                              resolve(library, "nvrtcCompileProgram", nvrtc.compile) &&
                              resolve(library, "nvrtcDestroyProgram", nvrtc.destroy) &&
                              resolve(library, "nvrtcGetProgramLogSize", nvrtc.log_size) &&
                              resolve(library, "nvrtcGetProgramLog", nvrtc.log) &&
                              resolve(library, "nvrtcGetCUBINSize", nvrtc.cubin_size) &&
                              resolve(library, "nvrtcGetCUBIN", nvrtc.cubin) &&
                              resolve(library, "nvrtcGetErrorString", nvrtc.error_text);
        if (complete) return nvrtc;
      }
    }
  }
  return tl::unexpected(Error{ErrorCode::Environment,
                              "NVRTC, CUDA's run-time compiler, was not found; looked in " + looked,
                              "install a CUDA toolkit, or run `make install`, or set STRATA_CUDA_ROOT to a folder with "
                              "lib/libnvrtc.so and include/cuda_fp16.h",
                              {}});
}

}  // namespace

Result<std::vector<char>> compile_cubin(const std::string& source, const Target& target) {
  static const Result<Nvrtc> nvrtc = open_nvrtc();
  if (!nvrtc) return tl::unexpected(nvrtc.error());
  Nvrtc::Program program = nullptr;
  if (const int status = nvrtc->create(&program, source.c_str(), "program.cu", 0, nullptr, nullptr); status != 0) {
    return environment("NVRTC refuses the program: {}", nvrtc->error_text(status));
  }
  const auto destroy = [&](Nvrtc::Program* p) { nvrtc->destroy(p); };
  const std::unique_ptr<Nvrtc::Program, decltype(destroy)> owner(&program, destroy);
  std::vector<std::string> options{fmt::format("-arch={}", target.name), "-std=c++20", "-default-device"};
  for (const std::string& folder : nvrtc->include_directories) options.push_back("-I" + folder);
  std::vector<const char*> pointers;
  for (const std::string& option : options) pointers.push_back(option.c_str());
  const int status = nvrtc->compile(program, static_cast<int>(pointers.size()), pointers.data());
  if (status != 0) {
    size_t size = 0;
    nvrtc->log_size(program, &size);
    std::string log(size, '\0');
    if (size > 0) nvrtc->log(program, log.data());
    return unsupported("NVRTC did not compile the generated source for {}: {}\n{}", target.name,
                       nvrtc->error_text(status), log.c_str());
  }
  size_t size = 0;
  nvrtc->cubin_size(program, &size);
  std::vector<char> cubin(size);
  if (size == 0 || nvrtc->cubin(program, cubin.data()) != 0)
    return environment("NVRTC made no cubin for {}", target.name);
  return cubin;
}

}  // namespace strata
