// CUDA's libraries, opened at run time: Strata builds and starts where none of them is installed, and each that is
// missing costs what needs it and a message.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"

namespace strata {

/// Binds functions of an open library by name, and remembers the first that is missing.
class FunctionBinder {
 public:
  explicit FunctionBinder(void* library) : library_(library) {}

  /// The first of `names` that the library has: interfaces were renamed between versions.
  template <class Function>
  void bind(Function& function, std::initializer_list<const char*> names) {
    function = nullptr;
    for (const char* name : names) {
      if (function == nullptr) function = reinterpret_cast<Function>(find(name));
    }
    if (function == nullptr && missing_.empty()) missing_ = *names.begin();
  }
  const std::string& missing() const { return missing_; }

 private:
  void* find(const char* name) const;

  void* library_;
  std::string missing_;
};

/// Folders that may hold a CUDA toolkit, or wheels that stand in for one, best first: $STRATA_CUDA_ROOT, $CUDA_HOME,
/// $CUDA_PATH, /usr/local/cuda, .venv above the executable or the current folder, the Python environment ($VIRTUAL_ENV,
/// else that of python3).
std::vector<std::filesystem::path> cuda_roots();
/// Where a root may keep its libraries.
std::vector<std::filesystem::path> library_folders(const std::filesystem::path& root);

struct CudaLibraryFiles {
  std::string_view name;           ///< for people
  const char* variable;            ///< of the environment: names the file, if set
  std::vector<std::string> files;  ///< newest version first
  std::string_view remedy;
};

/// Looks in cuda_roots() and then where the dynamic loader looks. It is never closed, because its threads may outlive
/// any owner. Error (Environment, with the remedy) where it is missing or cannot be loaded.
Result<void*> open_cuda_library(const CudaLibraryFiles& files);
/// Error (Environment) where the binder misses a function.
Result<void> check_complete(const FunctionBinder& binder, const CudaLibraryFiles& files);

/// Of a library that is there, its version; of one that is not, why.
struct CudaLibraryProbe {
  std::string name;
  std::string version;
  std::string missing;
};
/// NVRTC, nvJitLink, cuBLASLt and cuDNN.
std::vector<CudaLibraryProbe> probe_cuda_libraries();
/// "NVRTC 13.0, nvJitLink 13.0, cuBLASLt 13.1.0; missing: cuDNN (libcudnn.so.9) was not found".
std::string describe(const std::vector<CudaLibraryProbe>& libraries);

}  // namespace strata
