#include "runtime/cublas_lt.h"

#include "runtime/cuda_libraries.h"

namespace strata {

static_assert(sizeof(CudaPointer) == sizeof(void*));
static_assert(sizeof(CublasLt::Heuristic) == 96 && offsetof(CublasLt::Heuristic, state) == 72);

Result<void> CublasLt::check(int status, std::string_view what) const {
  if (status == 0) return {};
  const char* name = status_name(status);
  return unsupported("{}: cuBLASLt: {}", what, name == nullptr ? fmt::format("error {}", status) : name);
}

Result<CublasLt> open_cublas_lt() {
  static const CudaLibraryFiles files{
      "cuBLASLt",
      "STRATA_CUBLAS_LT",
      {"libcublasLt.so.13", "libcublasLt.so.12"},
      "install CUDA's cuBLAS, or set STRATA_CUDA_ROOT to a folder with lib/libcublasLt.so.13; "
      "`--disable-pass libraries` does without"};
  STRATA_TRY(const CudaLibrary library, open_cuda_library(files));
  FunctionBinder binder(library.handle);
  CublasLt lt{};
  binder.bind(lt.version, {"cublasLtGetVersion"});
  binder.bind(lt.status_name, {"cublasLtGetStatusName"});
  binder.bind(lt.create, {"cublasLtCreate"});
  binder.bind(lt.destroy, {"cublasLtDestroy"});
  binder.bind(lt.create_product, {"cublasLtMatmulDescCreate"});
  binder.bind(lt.destroy_product, {"cublasLtMatmulDescDestroy"});
  binder.bind(lt.set_product, {"cublasLtMatmulDescSetAttribute"});
  binder.bind(lt.create_layout, {"cublasLtMatrixLayoutCreate"});
  binder.bind(lt.destroy_layout, {"cublasLtMatrixLayoutDestroy"});
  binder.bind(lt.set_layout, {"cublasLtMatrixLayoutSetAttribute"});
  binder.bind(lt.create_preference, {"cublasLtMatmulPreferenceCreate"});
  binder.bind(lt.destroy_preference, {"cublasLtMatmulPreferenceDestroy"});
  binder.bind(lt.set_preference, {"cublasLtMatmulPreferenceSetAttribute"});
  binder.bind(lt.heuristics, {"cublasLtMatmulAlgoGetHeuristic"});
  binder.bind(lt.multiply, {"cublasLtMatmul"});
  STRATA_CHECK(check_complete(binder, files));
  return lt;
}

Result<std::string> cublas_lt_version() {
  STRATA_TRY(const CublasLt lt, open_cublas_lt());
  const size_t number = lt.version();
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace strata
