#include "lax_options.h"

#include <algorithm>
#include <thread>

#include "emitters/measure_parts.h"

namespace strata::cli {

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
