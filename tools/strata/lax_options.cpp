#include "lax_options.h"

#include <algorithm>
#include <thread>

#include "machine_options.h"
#include "options.h"

namespace strata::cli {

void add_search_options(CLI::App& command, SearchFlags& flags) {
  add_seconds(command, "--search-seconds", flags.seconds, 1e6,
              "HLO: seconds to superoptimize each different product with what is around it; 0: not at all");
  command.add_option("--cache", flags.cache, "HLO: folder of the cache of results; default ~/.cache/strata");
  command.add_flag("--no-cache", flags.no_cache, "HLO: neither read nor write the cache of results");
}

ResultCache* open_cache(const SearchFlags& flags, std::optional<ResultCache>& cache) {
  const std::string folder = cache_folder(flags.cache, flags.no_cache);
  if (folder.empty()) return nullptr;
  if (!cache) cache.emplace(folder, [](const std::string& text) { notice("warning: {}\n", text); });
  return &*cache;
}

emitters::LaxOptions lax_options(const SearchFlags& flags, std::optional<ResultCache>& cache) {
  emitters::LaxOptions options;
  options.seconds = flags.seconds;
  options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (flags.seconds > 0) options.cache = open_cache(flags, cache);
  return options;
}

}  // namespace strata::cli
