// Functions that XLA's programs call, by number: on the processor, and on the GPU on XLA's stream. One handler for each
// of the two serves all, so that JAX knows one name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "compiler/core/array_function.h"

namespace strata::python {

/// From now on calls with this number go to the function, for as long as the process lives. One that has the number
/// already keeps it: numbers are digests of programs and of what they are compiled for. Errors name the function so.
void publish_to_xla(int64_t number, std::shared_ptr<compiler::ArrayFunction> function, std::string name);

/// The handler of calls on the processor, as XLA takes it.
void* xla_handler();

/// Of calls on a GPU by CUDA. What it does is put on XLA's stream, without waiting, unless a step of the function is
/// the host's. Arrays are read and written where XLA has them; those that do not begin as the function wants are
/// copied.
void* xla_gpu_handler();

}  // namespace strata::python
