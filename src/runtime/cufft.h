// The part of cuFFT's C interface that Strata uses, opened at run time. Constants are those of the library's own
// header, cufft.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/cuda_driver.h"

namespace strata {

/// Functions return 0, or an error that check() names.
struct Cufft {
  using Plan = int;

  static constexpr int kRealToComplex = 0x2a, kComplexToReal = 0x2c, kComplexToComplex = 0x29;
  /// What the numbers above become of f64.
  static constexpr int kWide = 0x40;
  static constexpr int kForward = -1, kInverse = 1;

  int (*version)(int*);
  int (*create)(Plan*);
  int (*destroy)(Plan);
  int (*allocate_work)(Plan, int whether);
  /// Lengths are outermost first. Null for how arrays lie: one after the other, without gaps.
  int (*make_plan)(Plan, int rank, long long* lengths, long long* in, long long in_stride, long long in_distance,
                   long long* out, long long out_stride, long long out_distance, int type, long long batch,
                   size_t* work_bytes);
  int (*use_work)(Plan, CudaPointer);
  int (*use_stream)(Plan, CudaStream);
  /// What lies on the device is named as the driver does, by addresses; the library's header says pointers.
  using Run = int (*)(Plan, CudaPointer from, CudaPointer to);
  using RunInDirection = int (*)(Plan, CudaPointer from, CudaPointer to, int direction);
  RunInDirection complex_to_complex, complex_to_complex_f64;
  Run real_to_complex, real_to_complex_f64;
  Run complex_to_real, complex_to_real_f64;  ///< may overwrite what they read

  /// Error (Unsupported) "WHAT: cuFFT: error N" unless `status` is 0.
  Result<void> check(int status, std::string_view what) const;
};

/// $STRATA_CUFFT, else the CUDA toolkit's or the system's. Error (Environment, with a remedy) where it is missing.
Result<Cufft> open_cufft();
/// "12.0.0". Error (Environment) where it is missing.
Result<std::string> cufft_version();

}  // namespace strata
