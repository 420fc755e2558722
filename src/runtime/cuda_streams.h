// The part of the CUDA driver's interface by which a program runs among other people's work: their context, their
// streams, and graphs that they record.
#pragma once

#include "runtime/cuda_driver.h"

namespace strata {

/// Functions return 0, or an error that CudaDriver::check() names.
struct CudaStreams {
  static constexpr unsigned kWithoutTime = 2;  ///< of CudaDriver::create_event
  static constexpr int kNotRecorded = 0;       ///< of recording: nothing is being recorded

  int (*push_context)(CudaContext);
  int (*pop_context)(CudaContext*);
  int (*current_context)(CudaContext*);
  int (*wait_event)(CudaStream, CudaEvent, unsigned);
  int (*recording)(CudaStream, int*);
};

/// Of the library that open_cuda_driver() opens. Error (Environment) where it is missing or lacks a function.
Result<CudaStreams> open_cuda_streams();

}  // namespace strata
