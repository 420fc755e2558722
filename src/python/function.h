// Compiled programs as Python has them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/core/array_function.h"
#include "runtime/gpu_device.h"

namespace strata::python {

/// With what must outlive it. Its device memory is freed when Python drops it.
struct Function {
  std::shared_ptr<GpuDevice> device;  ///< null on the processor
  std::shared_ptr<compiler::ArrayFunction> function;
  std::vector<std::string> notes;
};

}  // namespace strata::python
