// Options of commands that give parts of HLO modules to the superoptimizer.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "commands.h"
#include "emitters/emit.h"
#include "emitters/lax/search.h"
#include "runtime/gpu_device.h"

namespace strata::cli {

/// Of --search-seconds, for a module, where there is a GPU to measure on and nobody says otherwise; else 0.
constexpr double kDefaultSearchSeconds = 20;

struct SearchFlags {
  double seconds = 0;
  const CLI::Option* seconds_option = nullptr;  ///< counted where it was given
  std::string cache;
  bool no_cache = false;
};

/// --search-seconds, --cache, --no-cache.
void add_search_options(CLI::App& command, SearchFlags& flags);

/// The cache of results that the flags name, opened if it is not; null where they want none.
ResultCache* open_cache(const SearchFlags& flags, std::optional<ResultCache>& cache);

/// The options, with a cache that is opened in `cache` if anything is searched. The models decide.
emitters::LaxOptions lax_options(const SearchFlags& flags, std::optional<ResultCache>& cache);

/// Those where the GPU decides, on which the module is to run.
emitters::LaxOptions measured_lax_options(const SearchFlags& flags, std::optional<ResultCache>& cache,
                                          const GpuDevice& device, const emitters::EmitOptions& emit_options,
                                          emitters::LibraryUse libraries);

}  // namespace strata::cli
