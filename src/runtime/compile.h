// CUDA source to cubin, in process: NVRTC is opened at run time, so that Strata starts where it is not installed.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "machine/target.h"

namespace strata {

/// A cubin for `target`. Error (Environment, with a remedy) where NVRTC or the CUDA headers are missing; Error
/// (Unsupported) with the compiler's log where the source does not compile; Error (Interrupted) when `stop` is
/// requested: NVRTC asks between its passes, those before CUDA 12.8 only at the start.
Result<std::vector<char>> compile_cubin(const std::string& source, const Target& target,
                                        const std::stop_token& stop = {});

/// "13.0". Error (Environment) where NVRTC or the CUDA headers are missing.
Result<std::string> nvrtc_version();

}  // namespace strata
