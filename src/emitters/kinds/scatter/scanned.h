// Scatters of few windows as one kernel: each block looks through all indices for the windows that go to its rows, puts
// them in order in shared memory, and writes its rows once. docs/emitters.md says how.
#pragma once

#include "emitters/kinds/scatter/rows.h"

namespace strata::emitters {

/// The plan where a model says that no other emitter of scatters is faster, and the same at any cost.
Result<Plan> plan_scatter_scan(const Fusion& fusion);
Result<Plan> plan_scatter_scan_at_any_cost(const Fusion& fusion);

/// What a block does. Windows and rows of a block are numbered in 16 bits each.
struct ScannedPlan {
  ScatterRowsPlan rows_plan;  ///< what and how wide: `shape`, `replaces`, `vector`, `batch`
  int64_t threads = 256;
  int64_t block_rows = 1;  ///< fewer than threads
  int64_t parts = 1;       ///< blocks that share the elements of these rows
  int64_t longest = 0;     ///< the groups of a block share the updates of a row that has more; 0: never

  const ScatterRows& shape() const { return rows_plan.shape; }
  int64_t row_groups() const { return indexing::ceil_div(shape().rows, block_rows); }
  int64_t blocks() const { return row_groups() * parts; }
  int64_t row_vectors() const { return shape().width / rows_plan.vector; }
  int64_t part_vectors() const { return indexing::ceil_div(row_vectors(), parts); }  ///< of a row, in one block
  int64_t thread_groups() const { return threads / part_vectors(); }  ///< that can have a vector of a row each
  /// Windows that a thread looks at: an odd number, so that threads find those of each in different banks.
  int64_t thread_windows() const { return indexing::ceil_div(shape().count, threads) | 1; }
};

/// Writes the kernel.
Result<void> emit_scanned(const RowsEmission& emission, const ScannedPlan& plan);

}  // namespace strata::emitters
