#include "search_options.h"

#include "machine_options.h"
#include "notice.h"
#include "options.h"

namespace strata::cli {

void add_search_options(CLI::App& command, SearchFlags& flags) {
  flags.seconds_option = add_seconds(
      command, "--search-seconds", flags.seconds, 1e6,
      fmt::format("HLO: seconds to superoptimize products with what is around them, for the whole module; default {} "
                  "on a GPU, else 0: not at all",
                  kDefaultSearchSeconds));
  command.add_option("--cache", flags.cache, "HLO: folder of the cache of results; default ~/.cache/strata");
  command.add_flag("--no-cache", flags.no_cache, "HLO: neither read nor write the cache of results");
}

ResultCache* open_cache(const SearchFlags& flags, std::optional<ResultCache>& cache) {
  const std::string folder = cache_folder(flags.cache, flags.no_cache);
  if (folder.empty()) return nullptr;
  if (!cache) cache.emplace(folder, [](const std::string& text) { notice("warning: {}\n", text); });
  return &*cache;
}

}  // namespace strata::cli
