#include "runtime/cusolver.h"

#include "runtime/cuda_libraries.h"

namespace strata {
namespace {

/// By number: cublasStatus_t and cusolverStatus_t; empty for those that have none.
constexpr std::array<std::string_view, 17> kBlasErrors{"success",
                                                       "not initialized",
                                                       "",
                                                       "allocation failed",
                                                       "",
                                                       "",
                                                       "",
                                                       "invalid value",
                                                       "unknown architecture",
                                                       "",
                                                       "",
                                                       "mapping error",
                                                       "",
                                                       "execution failed",
                                                       "internal error",
                                                       "not supported",
                                                       "no license"};
constexpr std::array<std::string_view, 11> kSolverErrors{"success",
                                                         "not initialized",
                                                         "allocation failed",
                                                         "invalid value",
                                                         "unknown architecture",
                                                         "mapping error",
                                                         "execution failed",
                                                         "internal error",
                                                         "matrix type not supported",
                                                         "not supported",
                                                         "zero pivot"};

template <size_t Count>
Result<void> checked(int status, std::string_view what, std::string_view library,
                     const std::array<std::string_view, Count>& errors) {
  if (status == 0) return {};
  const auto number = static_cast<size_t>(status);
  const bool named = status > 0 && number < errors.size() && !errors[number].empty();
  return unsupported("{}: {}: {}", what, library,
                     named ? std::string(errors[number]) : fmt::format("error {}", status));
}

/// The names differ in the letter of the element type: of "cublas?trsm" cublasStrsm, cublasDtrsm, … What is orthogonal
/// of real numbers is unitary of complex ones: of "?#" Sorgqr, Cungqr.
template <class Function, size_t Count>
void bind_each(FunctionBinder& binder, std::array<Function, Count>& functions, std::string_view name) {
  constexpr std::array<char, 4> kLetters{'S', 'D', 'C', 'Z'};
  for (size_t i = 0; i < functions.size(); ++i) {
    std::string made(name);
    made[made.find('?')] = kLetters[i];
    if (const size_t at = made.find('#'); at != std::string::npos) made.replace(at, 1, i < 2 ? "orgqr" : "ungqr");
    binder.bind(functions[i], {made.c_str()});
  }
}

Result<std::string> version_of(int (*property)(int, int*), std::string_view library) {
  std::array<int, 3> numbers{};
  for (const int which : {Cusolver::kMajor, Cusolver::kMinor, Cusolver::kPatch}) {
    if (property(which, &numbers[static_cast<size_t>(which)]) != 0)
      return unsupported("{} does not say its version", library);
  }
  return fmt::format("{}.{}.{}", numbers[0], numbers[1], numbers[2]);
}

}  // namespace

Result<void> Cusolver::check(int status, std::string_view what) const {
  return checked(status, what, "cuSOLVER", kSolverErrors);
}

Result<void> Cublas::check(int status, std::string_view what) const {
  return checked(status, what, "cuBLAS", kBlasErrors);
}

Result<Cusolver> open_cusolver() {
  static const CudaLibraryFiles files{"cuSOLVER",
                                      "STRATA_CUSOLVER",
                                      {"libcusolver.so.12", "libcusolver.so.11"},
                                      "install CUDA's cuSOLVER, or set STRATA_CUDA_ROOT to a folder with "
                                      "lib/libcusolver.so.12"};
  STRATA_TRY(const CudaLibrary library, open_cuda_library(files));
  FunctionBinder binder(library.handle);
  Cusolver made{};
  binder.bind(made.property, {"cusolverGetProperty"});
  binder.bind(made.create, {"cusolverDnCreate"});
  binder.bind(made.destroy, {"cusolverDnDestroy"});
  binder.bind(made.use_stream, {"cusolverDnSetStream"});
  bind_each(binder, made.cholesky_work, "cusolverDn?potrf_bufferSize");
  bind_each(binder, made.cholesky, "cusolverDn?potrf");
  bind_each(binder, made.cholesky_batched, "cusolverDn?potrfBatched");
  bind_each(binder, made.lu_work, "cusolverDn?getrf_bufferSize");
  bind_each(binder, made.lu, "cusolverDn?getrf");
  bind_each(binder, made.qr_work, "cusolverDn?geqrf_bufferSize");
  bind_each(binder, made.qr, "cusolverDn?geqrf");
  bind_each(binder, made.orthogonal_work, "cusolverDn?#_bufferSize");
  bind_each(binder, made.orthogonal, "cusolverDn?#");
  binder.bind(made.create_parameters, {"cusolverDnCreateParams"});
  binder.bind(made.destroy_parameters, {"cusolverDnDestroyParams"});
  binder.bind(made.create_rotations, {"cusolverDnCreateSyevjInfo"});
  binder.bind(made.destroy_rotations, {"cusolverDnDestroySyevjInfo"});
  binder.bind(made.create_singular, {"cusolverDnCreateGesvdjInfo"});
  binder.bind(made.destroy_singular, {"cusolverDnDestroyGesvdjInfo"});
  binder.bind_if_there(made.eigen_work, "cusolverDnXsyevBatched_bufferSize");
  binder.bind_if_there(made.eigen, "cusolverDnXsyevBatched");
  bind_each(binder, made.eigen_small_work, "cusolverDn?syevjBatched_bufferSize");
  bind_each(binder, made.eigen_small, "cusolverDn?syevjBatched");
  bind_each(binder, made.singular_small_work, "cusolverDn?gesvdjBatched_bufferSize");
  bind_each(binder, made.singular_small, "cusolverDn?gesvdjBatched");
  STRATA_CHECK(check_complete(binder, files));
  return made;
}

Result<Cublas> open_cublas() {
  static const CudaLibraryFiles files{"cuBLAS",
                                      "STRATA_CUBLAS",
                                      {"libcublas.so.13", "libcublas.so.12"},
                                      "install CUDA's cuBLAS, or set STRATA_CUDA_ROOT to a folder with "
                                      "lib/libcublas.so.13"};
  STRATA_TRY(const CudaLibrary library, open_cuda_library(files));
  FunctionBinder binder(library.handle);
  Cublas made{};
  binder.bind(made.property, {"cublasGetProperty"});
  binder.bind(made.create, {"cublasCreate_v2"});
  binder.bind(made.destroy, {"cublasDestroy_v2"});
  binder.bind(made.use_stream, {"cublasSetStream_v2"});
  binder.bind(made.use_work, {"cublasSetWorkspace_v2"});
  bind_each(binder, made.solve, "cublas?trsm_v2");
  bind_each(binder, made.solve_batched, "cublas?trsmBatched");
  bind_each(binder, made.lu_batched, "cublas?getrfBatched");
  bind_each(binder, made.qr_batched, "cublas?geqrfBatched");
  STRATA_CHECK(check_complete(binder, files));
  return made;
}

Result<std::string> cusolver_version() {
  STRATA_TRY(const Cusolver cusolver, open_cusolver());
  return version_of(cusolver.property, "cuSOLVER");
}

Result<std::string> cublas_version() {
  STRATA_TRY(const Cublas cublas, open_cublas());
  return version_of(cublas.property, "cuBLAS");
}

}  // namespace strata
