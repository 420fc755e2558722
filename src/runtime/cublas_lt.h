// The part of cuBLASLt's C interface that Strata uses, opened at run time. Constants are those of the library's own
// header, cublasLt.h.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/cuda_driver.h"

namespace strata {

/// Functions return 0, or an error that check() names.
struct CublasLt {
  using Handle = struct CublasLtHandleTag*;
  using Product = struct CublasLtProductTag*;  ///< cublasLtMatmulDesc_t
  using Layout = struct CublasLtLayoutTag*;
  using Preference = struct CublasLtPreferenceTag*;
  struct Algorithm {
    std::array<uint64_t, 8> data;
  };
  struct Heuristic {
    Algorithm algorithm;
    size_t workspace_bytes;
    int state;  ///< 0, or why the algorithm is of no use
    float waves;
    std::array<int, 4> reserved;
  };

  // Types of elements, of computing, and operations on matrices.
  static constexpr int kF32 = 0, kF64 = 1, kF16 = 2, kBF16 = 14;
  static constexpr int kS8 = 3, kS32 = 10, kF8E4M3 = 28, kF8E5M2 = 29;
  static constexpr int kComputeF32 = 68, kComputeF64 = 70, kComputeS32 = 72, kComputeTf32 = 77;
  static constexpr int32_t kTransposed = 1;
  // Attributes of products, layouts and preferences.
  static constexpr int kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBiasPointer = 8;
  static constexpr int kScaleAPointer = 17;  ///< of f8: what the library's A is multiplied by
  static constexpr int kBatchCount = 5, kBatchStride = 6;
  static constexpr int kMostWorkspace = 1, kReductions = 3, kLeastAlignmentA = 5, kLeastAlignmentB = 6;
  /// Partial sums are added in place or in the type of computing, never in the result's.
  static constexpr uint32_t kExactReductions = 1 | 2;
  static constexpr uint32_t kNoEpilogue = 1, kRelu = 2, kBias = 4, kGelu = 32;

  size_t (*version)();
  const char* (*status_name)(int);
  int (*create)(Handle*);
  int (*destroy)(Handle);
  int (*create_product)(Product*, int compute, int scale);
  int (*destroy_product)(Product);
  int (*set_product)(Product, int, const void*, size_t);
  int (*create_layout)(Layout*, int type, uint64_t rows, uint64_t columns, int64_t leading);
  int (*destroy_layout)(Layout);
  int (*set_layout)(Layout, int, const void*, size_t);
  int (*create_preference)(Preference*);
  int (*destroy_preference)(Preference);
  int (*set_preference)(Preference, int, const void*, size_t);
  int (*heuristics)(Handle, Product, Layout a, Layout b, Layout c, Layout d, Preference, int wanted, Heuristic*,
                    int* found);
  /// What lies on the device is named as the driver does, by addresses; the library's header says pointers.
  int (*multiply)(Handle, Product, const void* alpha, CudaPointer a, Layout, CudaPointer b, Layout, const void* beta,
                  CudaPointer c, Layout, CudaPointer d, Layout, const Algorithm*, CudaPointer workspace, size_t,
                  CudaStream);

  /// Error (Unsupported) "WHAT: cuBLASLt: CUBLAS_STATUS_…" unless `status` is 0.
  Result<void> check(int status, std::string_view what) const;
};

/// $STRATA_CUBLAS_LT, else the CUDA toolkit's or the system's. Error (Environment, with a remedy) where it is missing.
Result<CublasLt> open_cublas_lt();
/// "13.1.0". Error (Environment) where it is missing.
Result<std::string> cublas_lt_version();

}  // namespace strata
