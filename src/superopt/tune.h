// From the model's guess to the fastest: candidates in all their schedules are compiled, run on the machine's GPU,
// compared with the program, and timed. The program as given is always among them, so that what is chosen is never
// slower than it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/measure.h"
#include "superopt/codegen/all_schedules.h"
#include "superopt/superoptimize.h"

namespace strata {

/// Which rows come first.
enum class TuneOrder {
  Promise,  ///< the best of each graph by the model, then by estimates that what is measured corrects
  Random,   ///< drawn from all: what measures the model
};

struct TuneProgress {
  int measured = 0;  ///< rows with a verdict
  int rows = 0;
  double best_us = 0;  ///< cold; 0: none yet
  double seconds = 0;
};

struct TuneOptions {
  const Target* target = nullptr;  ///< of the machine's GPU
  /// Of wall-clock time, from the first measurement on: inputs, expected values and the list of rows come before, and
  /// their time grows with the program. The program as given is measured even where there is no time left.
  double seconds = 60;
  int threads = 1;    ///< that rate rows and compile
  uint64_t seed = 1;  ///< of the random inputs, and of a random order
  TuneOrder order = TuneOrder::Promise;
  /// Programs whose execution is more work (interpret/work.h) are compared with their own predefined kernels.
  double largest_interpreted = 4e9;
  Passes passes;
  ResultCache* cache = nullptr;  ///< of cubins and measurements; none where null. Not owned.
  MeasureOptions measure;
  Deadline deadline;  ///< what is known then is the result; nothing is measured once it passes or the user interrupts
  std::function<void(const TuneProgress&)> progress;
  /// Rows of which the model has made an estimate; called from any thread.
  std::function<void(size_t done, size_t count)> listing;
  /// How sources become cubins; cubin_of where empty.
  std::function<Result<std::vector<char>>(const std::string& source)> compile;
};

/// One candidate in one schedule.
struct TunedRow {
  GraphPtr graph;
  int candidate = -1;  ///< of Superoptimized::candidates; −1: the program as given, where it is none of them
  bool is_program = false;
  Schedules schedules;
  bool grouped = true;      ///< independent kernels share launches, where the passes say so
  double estimated_us = 0;  ///< the cost model's, with these schedules
  double corrected_us = 0;  ///< from it and the measurements of all other rows (measured_cost.h)
  int place = 0;            ///< in the order of promise by the model; 1 is first, and the model's choice
  Measurement measurement;
  std::string measured_at;  ///< where it comes from the cache: when it was measured
};

struct Tuning {
  MeasureDevice device;
  std::string reference;  ///< what outputs were compared with
  /// Right ones first, the fastest first of all; then the others in the order of promise.
  std::vector<TunedRow> rows;
  /// The row of the result: the fastest; the program where no row is right; the model's choice where it was not
  /// measured and nothing but the program was.
  size_t chosen = 0;
  double seconds = 0;
  /// Spearman's, of estimates and cold times over the right rows; none where they are fewer than 3 or all equal.
  std::optional<double> rank_correlation;
  std::optional<double> corrected_rank_correlation;  ///< of corrected estimates

  /// The place of the result among the right rows by corrected estimates; 1 is first.
  int corrected_place() const;

  const TunedRow& program() const;
  const TunedRow& result() const { return rows[chosen]; }
  int count(MeasureVerdict verdict) const;
  /// Why a row is not the result: "1.20x slower", "wrong: …", "failed: …"; empty for the result.
  std::string why_not(const TunedRow& row) const;
};

/// What reports say of measuring.
struct Profile {
  std::optional<Tuning> tuning;
  std::string skipped;  ///< why there is none
};

/// The row's schedules (label), "apart" after them where it is not grouped.
std::string row_label(const TunedRow& row);

/// The fastest row whose launches share independent kernels is measured without that, too: what is promised to be
/// faster must be. Error (Environment) where the GPU or NVRTC is missing; (Unsupported) where the program's own values
/// are not finite, or cannot be computed, so that there is nothing to compare with; (Interrupted) where the deadline
/// passes or the user interrupts before there is something to compare with. When that is later, it ends with what is
/// known.
Result<Tuning> tune(const Superoptimized& result, const TuneOptions& options);

/// Makes the chosen row the result: its graph becomes the first candidate, and code and cubin are those of its
/// schedule. Its graph is proved at full shape (first_proved, with `proofs`); rows of graphs that the proof turns down
/// are wrong, and the next is chosen.
Result<void> take_chosen(Superoptimized& result, Tuning& tuning, const TuneOptions& options,
                         const SuperoptimizeOptions& proofs);

/// Spearman's rank correlation; equal values share their mean rank.
std::optional<double> rank_correlation(const std::vector<std::pair<double, double>>& pairs);

}  // namespace strata
