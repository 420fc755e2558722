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
/// The same for real numbers: f32, f64.
template <class Function>
using ByReal = std::array<Function, 2>;

/// Functions return 0, or an error that check() names.
struct Cusolver {
  using Handle = struct CusolverTag*;

  /// What routines for values and vectors are given beside matrices.
  struct ParametersTag;
  struct RotationsTag;
  struct SingularTag;
  struct Settings {
    ParametersTag* general = nullptr;
    RotationsTag* eigen = nullptr;  ///< of rotations, which find small ones
    SingularTag* singular = nullptr;
  };
  static constexpr int kF32 = 0, kF64 = 1;
  static constexpr int kNoVectors = 0, kVectors = 1;

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

  int (*create_parameters)(ParametersTag**);
  int (*destroy_parameters)(ParametersTag*);
  int (*create_rotations)(RotationsTag**);
  int (*destroy_rotations)(RotationsTag*);
  int (*create_singular)(SingularTag**);
  int (*destroy_singular)(SingularTag*);

  /// (vectors, triangle, n, a of a type, from column to column, values of a type, the type to compute in, bytes of the
  /// workspaces on the device and on the host, matrices one after the other). Vectors take the place of a. From CUDA
  /// 12.6 on; null before.
  int (*eigen_work)(Handle, ParametersTag*, int vectors, int triangle, int64_t n, int type, CudaPointer a,
                    int64_t leading, int values_type, CudaPointer values, int compute, size_t* device, size_t* host,
                    int64_t batch);
  int (*eigen)(Handle, ParametersTag*, int vectors, int triangle, int64_t n, int type, CudaPointer a, int64_t leading,
               int values_type, CudaPointer values, int compute, CudaPointer work, size_t device, void* on_host,
               size_t host, CudaPointer info, int64_t batch);
  /// The same by Jacobi's rotations; the workspace in elements.
  using EigenSmallWork = int (*)(Handle, int vectors, int triangle, int n, CudaPointer a, int leading,
                                 CudaPointer values, int* elements, RotationsTag*, int batch);
  using EigenSmall = int (*)(Handle, int vectors, int triangle, int n, CudaPointer a, int leading, CudaPointer values,
                             CudaPointer work, int elements, CudaPointer info, RotationsTag*, int batch);
  ByReal<EigenSmallWork> eigen_small_work;
  ByReal<EigenSmall> eigen_small;
  /// By rotations, of matrices one after the other of up to 32 rows and columns, with square u and v.
  using SingularSmallWork = int (*)(Handle, int vectors, int rows, int columns, CudaPointer a, int leading,
                                    CudaPointer values, CudaPointer left, int left_leading, CudaPointer right,
                                    int right_leading, int* elements, SingularTag*, int batch);
  using SingularSmall = int (*)(Handle, int vectors, int rows, int columns, CudaPointer a, int leading,
                                CudaPointer values, CudaPointer left, int left_leading, CudaPointer right,
                                int right_leading, CudaPointer work, int elements, CudaPointer info, SingularTag*,
                                int batch);
  ByReal<SingularSmallWork> singular_small_work;
  ByReal<SingularSmall> singular_small;

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
