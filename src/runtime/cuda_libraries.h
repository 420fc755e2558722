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
  /// Null where the library has none of the name, which a user does without.
  template <class Function>
  void bind_if_there(Function& function, const char* name) {
    function = reinterpret_cast<Function>(find(name));
  }
  const std::string& missing() const { return missing_; }

 private:
  void* find(const char* name) const;

  void* library_;
  std::string missing_;
};

/// A folder that may hold a CUDA toolkit, or wheels that stand in for one.
struct CudaRoot {
  std::filesystem::path folder;
  /// Found beside the executable and not named by anyone: what is opened there must be out of others' reach.
  bool own = false;
};

/// The packages beside this code's own file (own_file.h): those of the prefix of PREFIX/bin/NAME, or the neighbours of
/// site-packages/strata/NAME; where it lies in CHECKOUT/build/PRESET, those of CHECKOUT/.venv too.
std::vector<CudaRoot> roots_of_own_file(const std::filesystem::path& file);
/// Best first: $STRATA_CUDA_ROOT, $CUDA_HOME, $CUDA_PATH, /usr/local/cuda, the executable's own prefix, the Python
/// environment ($VIRTUAL_ENV, else that of the first python3 on $PATH). Where the process stands does not matter:
/// relative paths in these variables are left out.
std::vector<CudaRoot> cuda_roots();

struct CudaLibraryFiles {
  std::string_view name;           ///< for people
  const char* variable;            ///< of the environment: names the file, if set
  std::vector<std::string> files;  ///< newest version first
  std::string_view remedy;
  std::string_view header = {};  ///< a root without it in one of its include folders does not count
  bool in_roots = true;          ///< false: comes with the system alone
};

struct CudaLibrary {
  void* handle = nullptr;
  std::filesystem::path root;  ///< empty where a variable named the file, or the dynamic loader found it
};

/// The folders of headers that a root has.
std::vector<std::string> include_folders(const std::filesystem::path& root);
/// Whether one of them has the file.
bool has_header(const std::filesystem::path& root, std::string_view header);

/// The only way in which libraries are opened: the file that the variable names, else the first in cuda_roots(), else
/// where the dynamic loader looks. It is never closed, because its threads may outlive any owner. Error (Environment,
/// with the remedy) where it is missing or cannot be loaded, or where the variable holds a relative path.
Result<CudaLibrary> open_cuda_library(const CudaLibraryFiles& files);
/// Error (Environment) where the binder misses a function.
Result<void> check_complete(const FunctionBinder& binder, const CudaLibraryFiles& files);

/// The version of a library that is there; for one that is not, the reason.
struct CudaLibraryProbe {
  std::string name;
  std::string version;
  std::string missing;
};
/// NVRTC, nvJitLink, cuBLASLt, cuDNN, cuFFT, cuSOLVER and cuBLAS.
std::vector<CudaLibraryProbe> probe_cuda_libraries();
/// "NVRTC 13.0, nvJitLink 13.0, cuBLASLt 13.1.0; missing: cuDNN (libcudnn.so.9) was not found".
std::string describe(const std::vector<CudaLibraryProbe>& libraries);

}  // namespace strata
