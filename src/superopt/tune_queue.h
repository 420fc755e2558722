// The order in which tune() compiles and measures: what is measured says where the fastest may be.
#pragma once

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "superopt/measured_cost.h"
#include "superopt/tune.h"

namespace strata {

/// The program, in its own kernels and with the library's best guess, and the model's choice: measured even where there
/// is no time left.
bool must_measure(const TunedRow& row);

/// Rows in the order in which they are worth measuring, sorted again after every few measurements. Thread-safe.
class TuneQueue {
 public:
  TuneQueue(const std::vector<TunedRow>& rows, TuneOrder order, uint64_t seed);

  /// The next row to compile, each row once; none where all are taken. Learns first where enough was measured since.
  std::optional<size_t> next();
  /// All rows in the order of now: first what must be measured, the program before all.
  std::vector<size_t> order() const;
  void measured(size_t row, double cold_us);

  /// Sets `corrected_us` of all rows, which are in the order that the queue was made of.
  void correct(std::vector<TunedRow>& rows);

 private:
  bool due() const;
  void learn();

  TuneOrder kind_;
  size_t must_ = 0;    ///< this many at the beginning of order_ stay there
  MeasuredCost cost_;  ///< of the thread that learns

  mutable std::mutex mutex_;  ///< of what follows
  std::vector<size_t> order_;
  std::vector<bool> taken_;
  std::vector<std::pair<size_t, double>> times_;
  size_t learnt_ = 0;  ///< of times_
  bool learning_ = false;
};

}  // namespace strata
