// A kernel in PTX as a function of a CUDA translation unit: both end in one image.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"

namespace strata::compiler {

/// The definition of device function `name`, whose body is that of the only kernel in `ptx`, as an assembly statement.
/// `parameters`: types of its parameters, all pointers, without names; one more, unsigned, is the number of the block,
/// of which there may be others in the launch. A thread does not come back. Error (Unsupported) where the text has more
/// than the kernel: functions, or variables of the module.
Result<std::string> ptx_in_cuda(std::string_view ptx, std::string_view name,
                                const std::vector<std::string>& parameters);

}  // namespace strata::compiler
