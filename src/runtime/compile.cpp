#include "runtime/compile.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/cuda_libraries.h"
#include "runtime/own_file.h"
#include "runtime/result_cache.h"
#include "support/trusted_path.h"

namespace strata {
namespace {

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

constexpr const char* kHeader = "cuda_fp16.h";

/// The include folders of the library's own root; where the system has it, those of the first root with headers.
Result<std::vector<std::string>> headers_for(const CudaLibrary& library, const CudaLibraryFiles& files) {
  if (!library.root.empty()) return include_folders(library.root);
  std::vector<CudaRoot> roots = cuda_roots();
  roots.push_back({"/usr"});
  for (const CudaRoot& root : roots) {
    const bool out_of_reach = !root.own || why_not_trusted(root.folder, owner_of(own_file())).empty();
    if (out_of_reach && has_header(root.folder, kHeader)) return include_folders(root.folder);
  }
  return tl::unexpected(Error{ErrorCode::Environment,
                              fmt::format("{} is there, but CUDA's headers ({}) are not", files.name, kHeader),
                              std::string(files.remedy),
                              {}});
}

Result<Nvrtc> open_nvrtc() {
  static const CudaLibraryFiles files{.name = "NVRTC, CUDA's run-time compiler,",
                                      .variable = "STRATA_NVRTC",
                                      .files = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
                                      .remedy =
                                          "install a CUDA toolkit, or run `make install`, or set "
                                          "STRATA_CUDA_ROOT to a folder with lib/libnvrtc.so and "
                                          "include/cuda_fp16.h",
                                      .header = kHeader};
  STRATA_TRY(const CudaLibrary library, open_cuda_library(files));
  Nvrtc nvrtc{};
  STRATA_TRY(nvrtc.include_directories, headers_for(library, files));
  FunctionBinder binder(library.handle);
  binder.bind(nvrtc.create, {"nvrtcCreateProgram"});
  binder.bind(nvrtc.compile, {"nvrtcCompileProgram"});
  binder.bind(nvrtc.destroy, {"nvrtcDestroyProgram"});
  binder.bind(nvrtc.log_size, {"nvrtcGetProgramLogSize"});
  binder.bind(nvrtc.log, {"nvrtcGetProgramLog"});
  binder.bind(nvrtc.cubin_size, {"nvrtcGetCUBINSize"});
  binder.bind(nvrtc.cubin, {"nvrtcGetCUBIN"});
  binder.bind(nvrtc.error_text, {"nvrtcGetErrorString"});
  binder.bind(nvrtc.version, {"nvrtcVersion"});
  STRATA_CHECK(check_complete(binder, files));
  FunctionBinder optional(library.handle);
  optional.bind(nvrtc.set_flow_callback, {"nvrtcSetFlowCallback"});
  return nvrtc;
}

std::string log_of(const Nvrtc& nvrtc, Nvrtc::Program program) {
  size_t size = 0;
  nvrtc.log_size(program, &size);
  std::string log(size, '\0');
  if (size > 0) nvrtc.log(program, log.data());
  return log.c_str();
}

/// From ptxas's notes: "64 bytes stack frame, 0 bytes spill stores", "Used 72 registers".
RegisterUse use_in(const std::string& notes) {
  RegisterUse use;
  // The largest number that stands before `what`.
  const auto raise_to = [&](int& most, std::string_view what) {
    const std::string_view text = notes;
    for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) {
      size_t first = at;
      while (first > 0 && std::isdigit(static_cast<unsigned char>(text[first - 1])) != 0) --first;
      int number = 0;
      if (std::from_chars(text.data() + first, text.data() + at, number).ec == std::errc())
        most = std::max(most, number);
    }
  };
  raise_to(use.registers, " registers");
  raise_to(use.stack_bytes, " bytes stack frame");
  raise_to(use.spilled_bytes, " bytes spill stores");
  return use;
}

/// Major and minor.
Result<std::pair<int, int>> version_of(const Nvrtc& nvrtc) {
  std::pair<int, int> version{};
  if (nvrtc.version(&version.first, &version.second) != 0) return environment("NVRTC tells no version");
  return version;
}

/// Opened once; never closed, because its threads may outlive any owner.
const Result<Nvrtc>& opened_nvrtc() {
  static const Result<Nvrtc> nvrtc = open_nvrtc();
  return nvrtc;
}

}  // namespace

Error no_time_to_compile(const Target& target) {
  return {ErrorCode::Interrupted,
          fmt::format("there was no time to compile the source for {}", target.name),
          "compile it by nvcc, or allow more time",
          {}};
}

Result<std::vector<char>> compile_cubin(const std::string& source, const Target& target, const std::stop_token& stop,
                                        RegisterUse* use) {
  const auto stopped = [&] { return tl::unexpected(no_time_to_compile(target)); };
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
  if (use != nullptr) {
    options.emplace_back("--ptxas-options=-v");
    // What comes from NVRTC's own cache, which it has since 12.9, comes without notes.
    STRATA_TRY(const auto version, version_of(*nvrtc));
    if (version >= std::pair(12, 9)) options.emplace_back("--no-cache");
  }
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
  if (status != 0)
    return unsupported("NVRTC did not compile the generated source for {}: {}\n{}", target.name,
                       nvrtc->error_text(status), log_of(*nvrtc, program));
  if (use != nullptr) *use = use_in(log_of(*nvrtc, program));
  size_t size = 0;
  nvrtc->cubin_size(program, &size);
  std::vector<char> cubin(size);
  if (size == 0 || nvrtc->cubin(program, cubin.data()) != 0)
    return environment("NVRTC made no cubin for {}", target.name);
  return cubin;
}

std::string cubin_key(std::string_view source, const Target& target, std::string_view nvrtc) {
  return fmt::format("{}\nNVRTC {}\n{}", target.name, nvrtc, source);
}

Result<std::vector<char>> cubin_of(const std::string& source, const Target& target, ResultCache* cache,
                                   const std::stop_token& stop, RegisterUse* use) {
  if (cache == nullptr) return compile_cubin(source, target, stop, use);
  STRATA_TRY(const std::string version, nvrtc_version());
  const std::string key = cubin_key(source, target, version);
  // Where they are asked for, ptxas's notes stand before the cubin.
  const char* const kind = use == nullptr ? "cubin" : "cubin with notes";
  const size_t notes = use == nullptr ? 0 : sizeof *use;
  if (const auto known = cache->find(kind, key); known && known->value.size() > notes) {
    if (use != nullptr) std::memcpy(use, known->value.data(), notes);
    return std::vector<char>(known->value.begin() + static_cast<std::ptrdiff_t>(notes), known->value.end());
  }
  STRATA_TRY(std::vector<char> cubin, compile_cubin(source, target, stop, use));
  std::string value(reinterpret_cast<const char*>(use), notes);
  value.append(cubin.begin(), cubin.end());
  cache->store(kind, key, value, 0, ResultCache::Keep::WhileThereIsRoom);
  return cubin;
}

Result<std::string> nvrtc_version() {
  const Result<Nvrtc>& nvrtc = opened_nvrtc();
  if (!nvrtc) return tl::unexpected(nvrtc.error());
  STRATA_TRY(const auto version, version_of(*nvrtc));
  return fmt::format("{}.{}", version.first, version.second);
}

}  // namespace strata
