// How a product of activations [rows, terms] with matrices [columns, terms] is cut into the tasks of a decode step:
// each task has columns of every matrix, and its loop has iterations of some terms. What an iteration reads of the
// matrices is a stage, which one warp takes; the warps of a task take iterations in turn.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "machine/rates.h"

namespace strata::megakernel {

struct ProductLimits {
  int64_t workers = 128;
  int64_t warps = 8;                                    ///< of a task
  int64_t stage_bytes = 16384;                          ///< at most
  int64_t ring_bytes = 131072;                          ///< of weights that may come before activations do
  int64_t columns = 512;                                ///< of a task, at most
  int64_t terms = std::numeric_limits<int64_t>::max();  ///< of an iteration, at most
  Rates rates{};                                        ///< of the target
};

struct ProductCut {
  int64_t tasks = 0;   ///< 0: there is no cut
  int64_t terms = 0;   ///< of an iteration
  double seconds = 0;  ///< of the busiest worker; what it waits for activations is not in it
};

/// Of elements of 16 bits. `sizes` are the columns of each matrix.
ProductCut cut_product(const std::vector<int64_t>& sizes, int64_t terms, const ProductLimits& limits);

/// Into how many tasks the columns of matrices, `sizes` of each, are cut, which divides all sizes and leaves a task at
/// most `most_columns`; 0: nothing does. First those whose tasks have multiples of 4 columns of each matrix, a tagged
/// word; of these the ones whose tasks, where they come in several rounds, have 16 to 128 columns; then the one with
/// the fewest columns for the busiest worker, where a task counts as four columns more; then the fewest rounds.
int64_t tasks_of_columns(const std::vector<int64_t>& sizes, int64_t workers, int64_t most_columns);

/// Terms of an iteration of a product over `terms` in `rounds` of tasks of so many columns: a multiple of 16 that
/// divides it, with two iterations at least and a stage that `limits` allows; 0: there is none. Of these the one with
/// the least worker_seconds; but where another takes at most a twentieth longer, of which all warps have as many
/// iterations, the best of those.
int64_t terms_of_iteration(int64_t terms, int64_t columns, const ProductLimits& limits, int64_t rounds = 1);

/// The greatest divisor of `count` that is at most `most`.
int64_t greatest_divisor(int64_t count, int64_t most);

/// How many of a task's warps take the iterations of a loop in turn: as many as there are iterations, but a divisor, so
/// that their sums are added in whole rounds. The loop need not be a multiple; the last round is short then.
int64_t warps_of_loop(int64_t loop, int64_t warps);

/// What `rounds` of tasks of so many columns take a worker, where an iteration has `cut` of the `terms`.
double worker_seconds(int64_t terms, int64_t columns, int64_t cut, int64_t rounds, const ProductLimits& limits);

}  // namespace strata::megakernel
