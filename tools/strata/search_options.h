// Options of commands that give parts of HLO modules to the superoptimizer.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "runtime/result_cache.h"

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

}  // namespace strata::cli
