// How far plan_memory gets within its default node limit: random tensors of 1 … 64 units of 128 bytes that begin at any
// of some depths and live for up to 4, 8 or 16 of them; 40 sets a row.
//
//   build/release/bin/memory_plan
#include "support/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "support/random.h"

namespace {

using namespace strata;

constexpr int kSets = 40;
constexpr int64_t kUnit = 128;  // bytes

std::vector<LiveTensor> random_tensors(Random& random, int count, int depths, uint64_t longest) {
  std::vector<LiveTensor> tensors;
  for (int n = 0; n < count; ++n) {
    const auto bytes = kUnit * static_cast<int64_t>(1 + random.below(64));
    const auto first = static_cast<int64_t>(random.below(static_cast<uint64_t>(depths)));
    const int64_t last = first + static_cast<int64_t>(random.below(longest));
    tensors.push_back({bytes, first, std::min<int64_t>(last, depths - 1), kUnit});
  }
  return tensors;
}

}  // namespace

int main() {
  fmt::print("{:>8} {:>8} {:>8} {:>14} {:>16} {:>10}\n", "tensors", "longest", "solved", "above bound",
             "below first fit", "seconds");
  for (const int count : {16, 32, 48, 100, 200}) {
    for (const uint64_t longest : {4U, 8U, 16U}) {
      Random random(1);
      int solved = 0;
      double above_bound = 0;
      double below_first_fit = 0;
      double seconds = 0;
      for (int n = 0; n < kSets; ++n) {
        const auto tensors = random_tensors(random, count, n % 2 == 0 ? count : count / 2, longest);
        const auto start = std::chrono::steady_clock::now();
        const MemoryPlan plan = plan_memory(tensors);
        seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kSets;
        const auto peak = static_cast<double>(plan.peak);
        solved += plan.optimal ? 1 : 0;
        above_bound = std::max(above_bound, peak / static_cast<double>(plan.lower_bound) - 1);
        below_first_fit += (1 - peak / static_cast<double>(plan_memory(tensors, 0).peak)) / kSets;
      }
      fmt::print("{:8} {:8} {:5}/{} {:12.1f} % {:14.1f} % {:10.5f}\n", count, longest, solved, kSets, 100 * above_bound,
                 100 * below_first_fit, seconds);
    }
  }
}
