#include "lax_options.h"

#include <algorithm>
#include <thread>

#include "emitters/measure_parts.h"
#include "machine_options.h"
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

emitters::LaxOptions lax_options(const SearchFlags& flags, std::optional<ResultCache>& cache) {
  emitters::LaxOptions options;
  options.seconds = flags.seconds;
  options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  if (options.seconds > 0) options.cache = open_cache(flags, cache);
  return options;
}

emitters::LaxOptions measured_lax_options(const SearchFlags& flags, std::optional<ResultCache>& cache,
                                          const GpuDevice& device, const emitters::EmitOptions& emit_options,
                                          emitters::LibraryUse libraries) {
  SearchFlags with_default = flags;
  const bool given = flags.seconds_option != nullptr && flags.seconds_option->count() > 0;
  if (!given) with_default.seconds = kDefaultSearchSeconds;
  emitters::LaxOptions options = lax_options(with_default, cache);
  options.measures = true;
  options.device = fmt::format("{}, driver {}", device.name(), device.driver_version());
  options.microseconds = [&device, emit_options, libraries](const hlo::Module& part, const emitters::LaxStep* step) {
    return emitters::part_microseconds(device, part, step, emit_options, libraries);
  };
  return options;
}

}  // namespace strata::cli
