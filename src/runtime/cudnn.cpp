#include "runtime/cudnn.h"

#include "runtime/cuda_libraries.h"

namespace strata {

Result<void> Cudnn::check(int status, std::string_view what) const {
  if (status == 0) return {};
  const char* name = error_string(status);
  return unsupported("{}: cuDNN: {}", what, name == nullptr ? fmt::format("error {}", status) : name);
}

Result<Cudnn> open_cudnn() {
  static const CudaLibraryFiles files{"cuDNN",
                                      "STRATA_CUDNN",
                                      {"libcudnn.so.9"},
                                      "install cuDNN 9, or set STRATA_CUDNN to its libcudnn.so.9; "
                                      "`--disable-pass libraries` does without"};
  STRATA_TRY(const CudaLibrary library, open_cuda_library(files));
  FunctionBinder binder(library.handle);
  Cudnn cudnn{};
  binder.bind(cudnn.version, {"cudnnGetVersion"});
  binder.bind(cudnn.error_string, {"cudnnGetErrorString"});
  binder.bind(cudnn.create, {"cudnnCreate"});
  binder.bind(cudnn.destroy, {"cudnnDestroy"});
  binder.bind(cudnn.use_stream, {"cudnnSetStream"});
  binder.bind(cudnn.create_descriptor, {"cudnnBackendCreateDescriptor"});
  binder.bind(cudnn.destroy_descriptor, {"cudnnBackendDestroyDescriptor"});
  binder.bind(cudnn.finalize, {"cudnnBackendFinalize"});
  binder.bind(cudnn.set_attribute, {"cudnnBackendSetAttribute"});
  binder.bind(cudnn.get_attribute, {"cudnnBackendGetAttribute"});
  binder.bind(cudnn.execute, {"cudnnBackendExecute"});
  STRATA_CHECK(check_complete(binder, files));
  return cudnn;
}

Result<std::string> cudnn_version() {
  STRATA_TRY(const Cudnn cudnn, open_cudnn());
  const size_t number = cudnn.version();
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace strata
