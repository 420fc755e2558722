// A kernel in PTX as a kernel of a CUDA translation unit: both end in one image.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"

namespace strata::compiler {

/// The definition of extern "C" kernel `name`, whose body is that of the only kernel in `ptx`, as an assembly
/// statement. `parameters`: types of its parameters, all pointers. Error (Unsupported) where the text has more than
/// the kernel: functions, or variables of the module.
Result<std::string> ptx_in_cuda(std::string_view ptx, std::string_view name, const std::vector<std::string>& parameters,
                                int64_t threads);

}  // namespace strata::compiler
