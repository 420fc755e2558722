#include "runtime/cufft.h"

#include <array>

#include "runtime/cuda_libraries.h"

namespace strata {
namespace {

constexpr std::array<std::string_view, 10> kErrors{
    "success",        "invalid plan",   "allocation failed", "invalid type", "invalid value",
    "internal error", "running failed", "setup failed",      "invalid size", "unaligned data"};

}  // namespace

Result<void> Cufft::check(int status, std::string_view what) const {
  if (status == 0) return {};
  const auto number = static_cast<size_t>(status);
  return unsupported(
      "{}: cuFFT: {}", what,
      status > 0 && number < kErrors.size() ? std::string(kErrors[number]) : fmt::format("error {}", status));
}

Result<Cufft> open_cufft() {
  static const CudaLibraryFiles files{"cuFFT",
                                      "STRATA_CUFFT",
                                      {"libcufft.so.12", "libcufft.so.11"},
                                      "install CUDA's cuFFT, or set STRATA_CUDA_ROOT to a folder with "
                                      "lib/libcufft.so.12"};
  STRATA_TRY(const CudaLibrary library, open_cuda_library(files));
  FunctionBinder binder(library.handle);
  Cufft cufft{};
  binder.bind(cufft.version, {"cufftGetVersion"});
  binder.bind(cufft.create, {"cufftCreate"});
  binder.bind(cufft.destroy, {"cufftDestroy"});
  binder.bind(cufft.allocate_work, {"cufftSetAutoAllocation"});
  binder.bind(cufft.make_plan, {"cufftMakePlanMany64"});
  binder.bind(cufft.use_work, {"cufftSetWorkArea"});
  binder.bind(cufft.use_stream, {"cufftSetStream"});
  binder.bind(cufft.complex_to_complex, {"cufftExecC2C"});
  binder.bind(cufft.complex_to_complex_f64, {"cufftExecZ2Z"});
  binder.bind(cufft.real_to_complex, {"cufftExecR2C"});
  binder.bind(cufft.real_to_complex_f64, {"cufftExecD2Z"});
  binder.bind(cufft.complex_to_real, {"cufftExecC2R"});
  binder.bind(cufft.complex_to_real_f64, {"cufftExecZ2D"});
  STRATA_CHECK(check_complete(binder, files));
  return cufft;
}

Result<std::string> cufft_version() {
  STRATA_TRY(const Cufft cufft, open_cufft());
  int number = 0;
  STRATA_CHECK(cufft.check(cufft.version(&number), "asking for the version"));
  return fmt::format("{}.{}.{}", number / 1000, number / 100 % 10, number % 100);
}

}  // namespace strata
