#include "megakernel/models/product_cut.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace strata::megakernel {
namespace {

constexpr int64_t kProductDepth = 16;  // terms of a tensor core instruction
constexpr int64_t kElementBytes = 2;
constexpr int64_t kWordColumns = 4;  // of a tagged word: tasks write whole words of a row

constexpr double kWorthEqualWarps = 1.05;

}  // namespace

ProductCut cut_product(const std::vector<int64_t>& sizes, int64_t terms, const ProductLimits& limits) {
  ProductCut cut;
  cut.tasks = tasks_of_columns(sizes, limits.workers, limits.columns);
  if (cut.tasks == 0) return cut;
  const int64_t columns = std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) / cut.tasks;
  const int64_t rounds = (cut.tasks + limits.workers - 1) / limits.workers;
  cut.terms = terms_of_iteration(terms, columns, limits, rounds);
  if (cut.terms == 0) return {};
  cut.seconds = worker_seconds(terms, columns, cut.terms, rounds, limits);
  return cut;
}

int64_t tasks_of_columns(const std::vector<int64_t>& sizes, int64_t workers, int64_t most_columns) {
  constexpr int64_t kLeastColumns = 16;  // of a task that is one of several of a worker,
  constexpr int64_t kMostColumns = 128;  // so that accumulators stay small
  constexpr int64_t kTaskColumns = 4;    // of a few thousand terms, in whose time a task begins and ends
  int64_t common = 0, all = 0;
  for (const int64_t size : sizes) {
    common = std::gcd(common, size);
    all += size;
  }
  std::array<int64_t, 4> best{};
  int64_t chosen = 0;
  for (int64_t tasks = 1; tasks <= common; ++tasks) {
    if (common % tasks != 0) continue;
    const int64_t columns = all / tasks, each = common / tasks, rounds = (tasks + workers - 1) / workers;
    if (columns > most_columns) continue;
    const bool is_odd = rounds > 1 && (columns < kLeastColumns || columns > kMostColumns);
    const std::array cost{int64_t{each % kWordColumns != 0}, int64_t{is_odd}, rounds * (columns + kTaskColumns),
                          rounds};
    if (chosen != 0 && cost >= best) continue;
    best = cost;
    chosen = tasks;
  }
  return chosen;
}

int64_t greatest_divisor(int64_t count, int64_t most) {
  int64_t divisor = std::min(count, most);
  while (count % divisor != 0) --divisor;
  return divisor;
}

int64_t warps_of_loop(int64_t loop, int64_t warps) { return greatest_divisor(warps, loop); }

double worker_seconds(int64_t terms, int64_t columns, int64_t cut, int64_t rounds, const ProductLimits& limits) {
  const Rates& rates = limits.rates;
  const double share = std::min(rates.memory_bandwidth / static_cast<double>(limits.workers), rates.worker_bandwidth);
  const int64_t iterations = terms / cut, taking = warps_of_loop(iterations, limits.warps);
  const int64_t of_warp = (iterations + taking - 1) / taking;
  const auto stage = static_cast<double>(cut * columns * kElementBytes);
  const double iteration = rates.warp_iteration + stage / rates.warp_bandwidth,
               load = std::max(rates.least_stage, rates.stage_push + stage / share);
  const double computed = static_cast<double>(rounds * of_warp) * iteration;
  const double loaded = static_cast<double>(rounds * iterations) * load;
  const double begun = static_cast<double>(rounds) * rates.task_start;
  // Weights that are there before activations come take only the time of computing. Otherwise what is computed while
  // weights come takes none, but for the last iteration.
  if (rounds * terms * columns * kElementBytes <= limits.ring_bytes) return begun + computed;
  return begun + std::max(loaded, computed) + iteration;
}

int64_t terms_of_iteration(int64_t terms, int64_t columns, const ProductLimits& limits, int64_t rounds) {
  struct Best {
    int64_t cut = 0;
    double seconds = std::numeric_limits<double>::infinity();
    void offer(int64_t other, double its_seconds) {
      if (its_seconds < seconds) *this = {other, its_seconds};
    }
  };
  Best any, equal;
  const int64_t most = std::min({limits.stage_bytes / (kElementBytes * columns), limits.terms, terms / 2});
  for (int64_t cut = most / kProductDepth * kProductDepth; cut > 0; cut -= kProductDepth) {
    if (terms % cut != 0) continue;
    const double seconds = worker_seconds(terms, columns, cut, rounds, limits);
    any.offer(cut, seconds);
    if (terms / cut % limits.warps == 0) equal.offer(cut, seconds);
  }
  return equal.seconds <= kWorthEqualWarps * any.seconds ? equal.cut : any.cut;
}

}  // namespace strata::megakernel
