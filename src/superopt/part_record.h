// Optimised parts as entries of the cache of results.
#pragma once

#include <limits>

#include "runtime/result_cache.h"
#include "superopt/optimize_part.h"

namespace strata {

// Effort is counted in seconds: those that a part has at least in a run with the time limit that it was found with, or
// fewer where it was granted fewer. What it was granted beyond that does not count, so that a run with the same limit
// or a shorter one takes the result, and one with a longer limit searches again.

/// The effort of a result that no time limit had a part in: no limit asks for more.
inline constexpr double kExhaustive = std::numeric_limits<double>::max();

/// The effort of a part that is granted this many seconds in a run with this time limit (kNever: none), where it has at
/// least `share` of any limit.
double effort_of(double granted, double limit, double share);

/// Everything but the program and the time that a result depends on: the target, the options, the build.
std::string search_key(const SuperoptimizeOptions& options);

/// Everything that a part's result depends on but the time: the canonical program, the target, the options, the build.
std::string part_key(const Graph& canonical, const SuperoptimizeOptions& options);

/// The part's result, where one of at least this effort is known: its graphs, each proved again. What does not read as
/// it should, or holds a graph that cannot be proved, is none and is dropped; graphs that there is no time to prove are
/// left out.
std::optional<OptimizedPart> find_part(ResultCache& cache, const std::string& key, double effort,
                                       const GraphPtr& canonical, const SuperoptimizeOptions& options,
                                       const Deadline& deadline);

/// Keeps a result of this effort, or of kExhaustive where it is complete; not where the user's interrupt cut it.
void store_part(ResultCache& cache, const std::string& key, double effort, const OptimizedPart& part,
                const GraphPtr& canonical, bool interrupted = false);

}  // namespace strata
