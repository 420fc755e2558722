// The part of the C interfaces of cuSOLVER and cuBLAS that Strata uses, opened at run time. Constants are those of the
// libraries' own headers, cusolverDn.h and cublas_v2.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/cuda_driver.h"

namespace strata {

/// One function for each element type: f32, f64, c64, c128. What lies on the device is named as the driver does, by
/// addresses; the libraries' headers say pointers to elements. Matrices lie column by column.
template <class Function>
using ByElement = std::array<Function, 4>;

/// Functions return 0, or an error that check() names.
struct Cusolver {
  using Handle = struct CusolverTag*;

  // Of cusolverGetProperty.
  static constexpr int kMajor = 0, kMinor = 1, kPatch = 2;

  int (*property)(int which, int* value);
  int (*create)(Handle*);
  int (*destroy)(Handle);
  int (*use_stream)(Handle, CudaStream);

  /// (n, a, elements from column to column, elements of the workspace)
  using CholeskyWork = int (*)(Handle, int triangle, int n, CudaPointer a, int leading, int* elements);
  using Cholesky = int (*)(Handle, int triangle, int n, CudaPointer a, int leading, CudaPointer work, int elements,
                           CudaPointer info);
  /// Of matrices whose addresses lie on the device; an info for each.
  using CholeskyBatched = int (*)(Handle, int triangle, int n, CudaPointer matrices, int leading, CudaPointer infos,
                                  int batch);
  using LuWork = int (*)(Handle, int rows, int columns, CudaPointer a, int leading, int* elements);
  /// Pivots count from 1.
  using Lu = int (*)(Handle, int rows, int columns, CudaPointer a, int leading, CudaPointer work, CudaPointer pivots,
                     CudaPointer info);
  /// With the workspace's elements after it.
  using Qr = int (*)(Handle, int rows, int columns, CudaPointer a, int leading, CudaPointer factors, CudaPointer work,
                     int elements, CudaPointer info);
  using OrthogonalWork = int (*)(Handle, int rows, int columns, int reflectors, CudaPointer a, int leading,
                                 CudaPointer factors, int* elements);
  using Orthogonal = int (*)(Handle, int rows, int columns, int reflectors, CudaPointer a, int leading,
                             CudaPointer factors, CudaPointer work, int elements, CudaPointer info);
  ByElement<CholeskyWork> cholesky_work;
  ByElement<Cholesky> cholesky;
  ByElement<CholeskyBatched> cholesky_batched;
  ByElement<LuWork> lu_work;
  ByElement<Lu> lu;
  ByElement<LuWork> qr_work;
  ByElement<Qr> qr;
  ByElement<OrthogonalWork> orthogonal_work;
  ByElement<Orthogonal> orthogonal;

  /// Error (Unsupported) "WHAT: cuSOLVER: error N" unless `status` is 0.
  Result<void> check(int status, std::string_view what) const;
};

struct Cublas {
  using Handle = struct CublasTag*;

  static constexpr int kLower = 0, kUpper = 1;
  static constexpr int kLeft = 0, kRight = 1;
  static constexpr int kAsItIs = 0, kTransposed = 1, kAdjoint = 2;
  static constexpr int kNonUnit = 0, kUnit = 1;

  int (*property)(int which, int* value);
  int (*create)(Handle*);
  int (*destroy)(Handle);
  int (*use_stream)(Handle, CudaStream);
  int (*use_work)(Handle, CudaPointer, size_t bytes);

  /// (side, triangle, transposition, diagonal, rows and columns of b, factor on the host, a, b, which becomes x)
  using Solve = int (*)(Handle, int side, int triangle, int transposed, int diagonal, int rows, int columns,
                        const void* factor, CudaPointer a, int leading, CudaPointer b, int b_leading);
  /// Of matrices whose addresses lie on the device.
  using SolveBatched = int (*)(Handle, int side, int triangle, int transposed, int diagonal, int rows, int columns,
                               const void* factor, CudaPointer a, int leading, CudaPointer b, int b_leading, int batch);
  using LuBatched = int (*)(Handle, int n, CudaPointer matrices, int leading, CudaPointer pivots, CudaPointer infos,
                            int batch);
  /// `info` is on the host, and says of these arguments alone.
  using QrBatched = int (*)(Handle, int rows, int columns, CudaPointer matrices, int leading, CudaPointer factors,
                            int* info, int batch);
  ByElement<Solve> solve;
  ByElement<SolveBatched> solve_batched;
  ByElement<LuBatched> lu_batched;
  ByElement<QrBatched> qr_batched;

  Result<void> check(int status, std::string_view what) const;
};

/// $STRATA_CUSOLVER, else the CUDA toolkit's or the system's. Error (Environment, with a remedy) where it is missing.
Result<Cusolver> open_cusolver();
/// $STRATA_CUBLAS, else likewise.
Result<Cublas> open_cublas();
/// "12.0.9". Error (Environment) where it is missing.
Result<std::string> cusolver_version();
Result<std::string> cublas_version();

}  // namespace strata
