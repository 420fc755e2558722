#include "superopt/tune_queue.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace strata {
namespace {

/// Graphs whose best schedule by the model is measured before second ones.
constexpr size_t kFirstGraphs = 8;
constexpr size_t kLearnEvery = 8;
/// Standard deviations by which an estimate may be too high: rows of which little is known come earlier. Chosen, with
/// the numbers above, by replaying the measurements of 20 programs.
constexpr double kCuriosity = 0.5;

std::vector<MeasuredCost::Row> cost_rows(const std::vector<TunedRow>& rows) {
  std::map<const Graph*, int> graphs;
  std::vector<MeasuredCost::Row> all;
  for (const TunedRow& row : rows) {
    const int graph = graphs.try_emplace(row.graph.get(), static_cast<int>(graphs.size())).first->second;
    all.push_back({graph, row.schedules, row.estimated_us});
  }
  return all;
}

}  // namespace

bool must_measure(const TunedRow& row) {
  const bool other_algorithm = std::any_of(row.schedules.begin(), row.schedules.end(),
                                           [](const auto& schedule) { return schedule && schedule->algorithm > 0; });
  return row.place == 1 || (row.is_program && !other_algorithm);
}

TuneQueue::TuneQueue(const std::vector<TunedRow>& rows, TuneOrder order, uint64_t seed)
    : kind_(order), cost_(cost_rows(rows)), taken_(rows.size()) {
  for (size_t i = 0; i < rows.size(); ++i) order_.push_back(i);
  std::map<const Graph*, bool> seen;
  std::vector<bool> early(rows.size());
  for (size_t i = 0; i < rows.size() && seen.size() < kFirstGraphs; ++i)
    early[i] = seen.try_emplace(rows[i].graph.get()).second;
  if (order == TuneOrder::Random) {
    std::shuffle(order_.begin(), order_.end(), std::mt19937_64(seed));
  } else {
    std::stable_partition(order_.begin(), order_.end(), [&](size_t i) { return early[i]; });
  }
  const auto rest =
      std::stable_partition(order_.begin(), order_.end(), [&](size_t i) { return must_measure(rows[i]); });
  must_ = static_cast<size_t>(rest - order_.begin());
  // The program first: what has to be beaten must be known.
  std::stable_partition(order_.begin(), rest, [&](size_t i) { return rows[i].is_program; });
}

bool TuneQueue::due() const {
  return kind_ == TuneOrder::Promise && !learning_ && times_.size() >= learnt_ + kLearnEvery + learnt_ / kLearnEvery;
}

void TuneQueue::learn() {
  std::vector<std::pair<size_t, double>> times;
  {
    const std::scoped_lock lock(mutex_);
    if (!due()) return;
    learning_ = true;
    times = times_;
    learnt_ = times.size();
  }
  cost_.learn(times);
  std::vector<double> promise;
  for (const MeasuredCost::Estimate& estimate : cost_.estimates())
    promise.push_back(std::log(estimate.us) - kCuriosity * estimate.deviation);
  const std::scoped_lock lock(mutex_);
  std::stable_sort(order_.begin() + static_cast<std::ptrdiff_t>(must_), order_.end(),
                   [&](size_t a, size_t b) { return promise[a] < promise[b]; });
  learning_ = false;
}

std::optional<size_t> TuneQueue::next() {
  learn();
  const std::scoped_lock lock(mutex_);
  const auto found = std::find_if(order_.begin(), order_.end(), [&](size_t row) { return !taken_[row]; });
  if (found == order_.end()) return std::nullopt;
  taken_[*found] = true;
  return *found;
}

std::vector<size_t> TuneQueue::order() const {
  const std::scoped_lock lock(mutex_);
  return order_;
}

void TuneQueue::measured(size_t row, double cold_us) {
  const std::scoped_lock lock(mutex_);
  times_.emplace_back(row, cold_us);
}

void TuneQueue::correct(std::vector<TunedRow>& rows) {
  const std::scoped_lock lock(mutex_);
  cost_.learn(times_);
  const auto estimates = cost_.estimates();
  for (size_t i = 0; i < rows.size(); ++i) rows[i].corrected_us = estimates[i].us;
}

}  // namespace strata
