// Addresses of matrices on the device, where libraries of batches read them.
#pragma once

#include <array>
#include <memory>

#include "runtime/cuda_driver.h"

namespace strata {

/// A kernel that writes the addresses: a launch like any other, so that a graph can hold it, and right wherever the
/// matrices lie in a run.
class MatrixPointers {
 public:
  /// Matrices one after the other.
  struct Matrices {
    CudaPointer first = 0;
    int64_t bytes = 0;  ///< of one
  };

  static Result<std::unique_ptr<MatrixPointers>> load(const CudaDriver& driver);
  ~MatrixPointers();
  MatrixPointers(const MatrixPointers&) = delete;
  MatrixPointers& operator=(const MatrixPointers&) = delete;

  /// At `to` the addresses of `count` matrices of the first list, then as many of the second.
  Result<void> write(CudaStream stream, CudaPointer to, const std::array<Matrices, 2>& matrices, int64_t count) const;

 private:
  explicit MatrixPointers(const CudaDriver& driver) : driver_(driver) {}

  const CudaDriver& driver_;
  CudaModule module_ = nullptr;
  CudaFunction function_ = nullptr;
};

}  // namespace strata
