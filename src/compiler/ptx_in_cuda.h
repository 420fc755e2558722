// A kernel in PTX as a function of a CUDA translation unit: both end in one image.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"

namespace strata::compiler {

/// The definition of a block function, `template <class Team> NAME(parameters…, unsigned block, unsigned char* shared)`
/// (superopt/codegen/block_code.h), whose body is that of the only kernel in `ptx`, as an assembly statement: threads
/// are those of the team, and meet at its barrier. `parameters`: their types, all pointers, without names. Error
/// (Unsupported) where the text has more than the kernel and its dynamic shared memory: functions, or variables of the
/// module.
Result<std::string> ptx_in_cuda(std::string_view ptx, std::string_view name,
                                const std::vector<std::string>& parameters);

}  // namespace strata::compiler
