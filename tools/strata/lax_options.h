// Options of commands that give parts of HLO modules to the superoptimizer.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "commands.h"
#include "emitters/lax/search.h"

namespace strata::cli {

struct SearchFlags {
  double seconds = 0;
  std::string cache;
  bool no_cache = false;
};

/// --search-seconds, --cache, --no-cache.
void add_search_options(CLI::App& command, SearchFlags& flags);

/// The cache of results that the flags name, opened if it is not; null where they want none.
ResultCache* open_cache(const SearchFlags& flags, std::optional<ResultCache>& cache);

/// The options, with a cache that is opened in `cache` if anything is searched.
emitters::LaxOptions lax_options(const SearchFlags& flags, std::optional<ResultCache>& cache);

}  // namespace strata::cli
