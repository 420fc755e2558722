// From the search's graphs to those that are worth a proof: loops cut finer, elementwise chains in registers, rated
// with their schedules.
#pragma once

#include "superopt/codegen/known_schedules.h"
#include "superopt/optimize_part.h"
#include "support/deadline.h"

namespace strata {

/// The graphs and their variants with finer loops, cheapest by scheduled_cost first; but graphs of one kind, which have
/// the same kernels' grids, make way for others after the first few: estimates of one kind are wrong together. Of the
/// first of `found` alone, where the deadline passes. Of graphs that are equal but for names, one.
Result<std::vector<GraphPtr>> best_variants(const std::vector<GraphPtr>& found, const SuperoptimizeOptions& options,
                                            const Deadline& deadline, KnownSchedules& schedules);

}  // namespace strata
