// How the superoptimizer takes parts of HLO modules, as options say.
#pragma once

#include <optional>

#include "../search_options.h"
#include "emitters/emit.h"
#include "emitters/lax/search.h"
#include "runtime/gpu_device.h"

namespace strata::cli {

/// The options, with a cache that is opened in `cache` if anything is searched. The models decide.
emitters::LaxOptions lax_options(const SearchFlags& flags, std::optional<ResultCache>& cache);

/// Those where the GPU decides, on which the module is to run.
emitters::LaxOptions measured_lax_options(const SearchFlags& flags, std::optional<ResultCache>& cache,
                                          const GpuDevice& device, const emitters::EmitOptions& emit_options,
                                          emitters::LibraryUse libraries);

}  // namespace strata::cli
