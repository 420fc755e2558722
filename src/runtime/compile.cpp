#include "runtime/compile.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "runtime/cuda_libraries.h"

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
  int (*version)(int*, int*);
  int (*set_flow_callback)(Program, int (*)(void*, void*), void*);  ///< null before CUDA 12.8
  std::vector<std::string> include_directories;
};

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
    for (const fs::path& folder : library_folders(root)) {
      for (const char* file : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) {
        const fs::path path = folder / file;
        if (!fs::exists(path)) continue;
        void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) continue;
        Nvrtc nvrtc{};
        nvrtc.include_directories = includes;
        FunctionBinder binder(library);
        binder.bind(nvrtc.create, {"nvrtcCreateProgram"});
        binder.bind(nvrtc.compile, {"nvrtcCompileProgram"});
        binder.bind(nvrtc.destroy, {"nvrtcDestroyProgram"});
        binder.bind(nvrtc.log_size, {"nvrtcGetProgramLogSize"});
        binder.bind(nvrtc.log, {"nvrtcGetProgramLog"});
        binder.bind(nvrtc.cubin_size, {"nvrtcGetCUBINSize"});
        binder.bind(nvrtc.cubin, {"nvrtcGetCUBIN"});
        binder.bind(nvrtc.error_text, {"nvrtcGetErrorString"});
        binder.bind(nvrtc.version, {"nvrtcVersion"});
        FunctionBinder optional(library);
        optional.bind(nvrtc.set_flow_callback, {"nvrtcSetFlowCallback"});
        if (binder.missing().empty()) return nvrtc;
      }
    }
  }
  return tl::unexpected(Error{ErrorCode::Environment,
                              "NVRTC, CUDA's run-time compiler, was not found; looked in " + looked,
                              "install a CUDA toolkit, or run `make install`, or set STRATA_CUDA_ROOT to a folder with "
                              "lib/libnvrtc.so and include/cuda_fp16.h",
                              {}});
}

const Result<Nvrtc>& opened_nvrtc() {
  static const Result<Nvrtc> nvrtc = open_nvrtc();
  return nvrtc;
}

}  // namespace

Result<std::vector<char>> compile_cubin(const std::string& source, const Target& target, const std::stop_token& stop) {
  const auto stopped = [&] {
    return tl::unexpected(Error{ErrorCode::Interrupted,
                                fmt::format("there was no time to compile the source for {}", target.name),
                                "compile it by nvcc, or allow more time",
                                {}});
  };
  if (stop.stop_requested()) return stopped();
  const Result<Nvrtc>& nvrtc = opened_nvrtc();
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
  std::stop_token token = stop;
  const auto is_over = [](void* payload, void*) {
    return static_cast<const std::stop_token*>(payload)->stop_requested() ? 1 : 0;
  };
  if (nvrtc->set_flow_callback != nullptr && stop.stop_possible()) nvrtc->set_flow_callback(program, is_over, &token);
  const int status = nvrtc->compile(program, static_cast<int>(pointers.size()), pointers.data());
  if (status != 0 && stop.stop_requested()) return stopped();
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

Result<std::string> nvrtc_version() {
  const Result<Nvrtc>& nvrtc = opened_nvrtc();
  if (!nvrtc) return tl::unexpected(nvrtc.error());
  int major = 0;
  int minor = 0;
  if (nvrtc->version(&major, &minor) != 0) return environment("NVRTC tells no version");
  return fmt::format("{}.{}", major, minor);
}

}  // namespace strata
