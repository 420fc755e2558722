// Functions that XLA's programs call on the processor, by number. One handler serves all, so that JAX knows one name.
// Not on a GPU: XLA's buffers begin there at multiples of 128 bytes, and GpuFunction takes multiples of 256.
#pragma once

#include <cstdint>
#include <memory>

#include "compiler/array_function.h"

namespace strata::python {

/// From now on calls with this number go to the function, which is for the processor, for as long as the process lives.
/// One that has the number already keeps it: numbers are digests of programs.
void publish_to_xla(int64_t number, std::shared_ptr<compiler::ArrayFunction> function);

/// The handler, as XLA takes it.
void* xla_handler();

}  // namespace strata::python
