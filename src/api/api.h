// What the implementations of the public interface (include/strata) share.
#pragma once

#ifndef STRATA_BUILDS_API
#error "compile with STRATA_BUILDS_API: the public names are apart from the compiler's own then"
#endif

#include <memory>
#include <string>
#include <vector>

#include "compiler/core/array_function.h"
#include "runtime/gpu_device.h"
#include "strata/strata.h"
#include "support/error.h"

namespace strata::v1 {

[[noreturn]] void raise(const strata::Error& error);

/// The value of a result, or its error thrown.
template <class T>
T value_of(Result<T> result) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// With what must outlive it.
struct Function::State {
  std::shared_ptr<GpuDevice> device;  ///< null on the processor
  std::unique_ptr<compiler::ArrayFunction> function;
  std::vector<std::string> notes;
  std::vector<ArraySpec> inputs, results;
};

/// Fills in what the public interface tells of arrays.
Function make_function(std::shared_ptr<GpuDevice> device, std::unique_ptr<compiler::ArrayFunction> function,
                       std::vector<std::string> notes);

/// The GPU that a place means, null for the processor. One device a process: kernels share its context. Throws where
/// Place::Gpu finds none.
std::shared_ptr<GpuDevice> device_for(Place place);

}  // namespace strata::v1
