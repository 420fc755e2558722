// What is known of a program's parts at other sizes (docs/sizes.md): entries of the cache of results.
#pragma once

#include "superopt/optimize_part.h"
#include "superopt/partition/canonical.h"

namespace strata {

/// A graph without its sizes: the same for one structure at all sizes.
std::string structure_of(const Graph& graph);

/// What is known of a part at other sizes, made for these. Error with the reason, which is empty where nothing is
/// known, where no graph can be made, or none is proved and estimated faster than the part as it is. Results of less
/// effort are not taken.
Result<OptimizedPart> part_of_other_sizes(const Graph& part, const CanonicalProgram& form, double effort,
                                          const SuperoptimizeOptions& options, const Deadline& deadline);

/// Keeps a part's result, with the names of `part`, for other sizes; not where the user's interrupt cut it.
void store_part_of_size(const Graph& part, const OptimizedPart& named, double effort,
                        const SuperoptimizeOptions& options, bool interrupted);

/// Which graph is the best at some sizes, and how that is known.
struct SizedChoice {
  DimSizes sizes;
  std::string structure;                 ///< of the best graph
  std::string schedule;                  ///< how it was scheduled where it was measured; empty: the model's choice
  std::string device;                    ///< where candidates were measured; empty: the model chose
  std::map<std::string, int64_t> units;  ///< by dim: tiles divide its multiples
};

/// What runs of this program have chosen, with these options; empty without a cache.
std::vector<SizedChoice> known_choices(const SuperoptimizeOptions& options);
/// Keeps one more; one at the same sizes is replaced, but not one that was measured by one that was not.
void store_choice(const SizedChoice& choice, const SuperoptimizeOptions& options);
/// The nearest by the ratios of sizes; null where there is none.
const SizedChoice* nearest(const std::vector<SizedChoice>& choices, const DimSizes& sizes);

/// For each dim the least number of which the sizes must be multiples so that the graph's tiles divide them.
std::map<std::string, int64_t> tile_units(const SizedProgram& program, const Graph& best);

}  // namespace strata
