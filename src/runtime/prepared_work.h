// Work of a library (library_work.h) with the algorithm it is done by, ready to be launched.
#pragma once

#include <vector>

#include "runtime/cuda_driver.h"

namespace strata {

/// The library must outlive it.
class PreparedWork {
 public:
  PreparedWork() = default;
  virtual ~PreparedWork() = default;
  PreparedWork(const PreparedWork&) = delete;
  PreparedWork& operator=(const PreparedWork&) = delete;

  /// Bytes of device memory that it may use while it runs.
  virtual int64_t workspace_bytes() const = 0;
  /// Puts it on a stream. All arguments are aligned to 256 bytes; `workspace` has workspace_bytes().
  virtual Result<void> run(CudaStream stream, const std::vector<CudaPointer>& arguments,
                           CudaPointer workspace) const = 0;
};

}  // namespace strata
