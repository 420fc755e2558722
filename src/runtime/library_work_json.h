// Work of libraries (library_work.h) in the JSON of a manifest.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/launch_manifest.h"

namespace strata {

/// Of a launch that names a library. Errors are those of what does not fit together; what is missing throws, as JSON
/// does.
Result<LibraryWork> read_work(const nlohmann::json& launch);
nlohmann::ordered_json work_json(const LibraryWork& work);
/// Of a launch of a library's work.
nlohmann::ordered_json library_launch_json(const GpuLaunch& launch);

}  // namespace strata
