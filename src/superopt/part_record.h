// Optimised parts as entries of the cache of results.
#pragma once

#include <limits>

#include "runtime/result_cache.h"
#include "superopt/optimize_part.h"

namespace strata {

/// The effort of a search that ended by itself: no limit asks for more.
inline constexpr double kExhaustive = std::numeric_limits<double>::max();

/// Everything that a part's result depends on but the time: the canonical program, the target, the options, the build.
std::string part_key(const Graph& canonical, const SuperoptimizeOptions& options);

/// The part's result, where one of at least `effort` seconds of search is known: its graphs, each proved anew. What
/// does not read as it should, or holds a graph that cannot be proved, is none and is dropped; graphs that there is no
/// time to prove are left out.
std::optional<OptimizedPart> find_part(ResultCache& cache, const std::string& key, double effort,
                                       const GraphPtr& canonical, const SuperoptimizeOptions& options,
                                       const Deadline& deadline);

/// Keeps a result, unless it was interrupted.
void store_part(ResultCache& cache, const std::string& key, double effort, const OptimizedPart& part,
                const GraphPtr& canonical);

}  // namespace strata
