// The part of the CUDA driver's interface by which a program runs among other people's work: their context, their
// streams, and graphs that they record.
#pragma once

#include <utility>

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
  int (*context_of)(CudaStream, CudaContext*);
};

/// Of the library that open_cuda_driver() opens. Error (Environment) where it is missing or lacks a function.
Result<CudaStreams> open_cuda_streams();

/// Makes a context current on this thread, and the one before afterwards: the caller may be at work on another GPU.
class ContextScope {
 public:
  static Result<ContextScope> enter(const CudaDriver& driver, const CudaStreams& streams, CudaContext context);
  ~ContextScope();
  ContextScope(ContextScope&& other) noexcept : pop_(std::exchange(other.pop_, nullptr)) {}
  ContextScope& operator=(ContextScope&&) = delete;

 private:
  explicit ContextScope(const CudaStreams& streams) : pop_(streams.pop_context) {}
  int (*pop_)(CudaContext*);
};

}  // namespace strata
