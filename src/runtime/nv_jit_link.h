// PTX to cubin, in process: nvJitLink is opened at run time. NVRTC makes cubins of CUDA C++ by itself; what comes from
// LLVM is PTX.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/error.h"

namespace strata {

/// A cubin for the architecture of a known target, such as "sm_90a" (Target::name). Error (Environment, with a remedy)
/// where nvJitLink is missing; Error (Unsupported) with its log where it does not take the text.
Result<std::vector<char>> link_ptx(const std::string& ptx, std::string_view arch);

/// "13.0". Error (Environment) where nvJitLink is missing.
Result<std::string> nv_jit_link_version();

}  // namespace strata
