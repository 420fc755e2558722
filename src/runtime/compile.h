// CUDA source to cubin, in process: NVRTC is opened at run time, so that Strata starts where it is not installed.
#pragma once

#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "machine/target.h"

namespace strata {

class ResultCache;

/// What ptxas says of a cubin's kernels, the most of all of them.
struct RegisterUse {
  int registers = 0;      ///< of a thread
  int stack_bytes = 0;    ///< of a thread: arrays that are no registers, and registers for which there was no room
  int spilled_bytes = 0;  ///< stores of the latter
};

/// A cubin for `target`. Error (Environment, with a remedy) where NVRTC or the CUDA headers are missing; Error
/// (Unsupported) with the compiler's log where the source does not compile; Error (Interrupted) when `stop` is
/// requested: NVRTC asks between its passes, those before CUDA 12.8 only at the start. `use`: where not null, what the
/// cubin's kernels take.
Result<std::vector<char>> compile_cubin(const std::string& source, const Target& target,
                                        const std::stop_token& stop = {}, RegisterUse* use = nullptr);

/// That there was no time to make a cubin for the target.
Error no_time_to_compile(const Target& target);

/// The same, or what an earlier call left in the cache for this source and target and the same NVRTC. Without NVRTC
/// nothing is taken from the cache either: what it would make is not known. `cache` may be null.
Result<std::vector<char>> cubin_of(const std::string& source, const Target& target, ResultCache* cache,
                                   const std::stop_token& stop = {}, RegisterUse* use = nullptr);

/// The cache's key of a source's cubin, of the kind "cubin".
std::string cubin_key(std::string_view source, const Target& target, std::string_view nvrtc);

/// "13.0". Error (Environment) where NVRTC or the CUDA headers are missing.
Result<std::string> nvrtc_version();

}  // namespace strata
