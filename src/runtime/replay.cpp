#include "runtime/replay.h"

#include <algorithm>

#include "runtime/recorded_graph.h"

namespace strata {
namespace {

constexpr int64_t kRunsOfGraph = 20;
constexpr int kReplays = 20;
constexpr int kLeastReplays = 3;
/// Microseconds that one graph, and all its replays, should not exceed.
constexpr double kLongGraph = 2e4;
constexpr double kLongReplays = 2e5;

template <class Work>
Result<double> timed(const GpuDevice& device, const Work& work) {
  GpuEvent begin(device);
  GpuEvent end(device);
  STRATA_CHECK(begin.record());
  STRATA_CHECK(work());
  STRATA_CHECK(end.record());
  return begin.microseconds_until(end);
}

}  // namespace

Result<double> replayed_microseconds(const GpuDevice& device, int64_t sets,
                                     const std::function<Result<void>(int64_t set)>& launch) {
  // What a first run loads and sets up is no part of the time.
  STRATA_CHECK(launch(0));
  STRATA_CHECK(device.synchronize());
  STRATA_TRY(const double once, timed(device, [&] { return launch(sets - 1); }));

  int64_t runs = (kRunsOfGraph + sets - 1) / sets * sets;
  runs = std::clamp<int64_t>(static_cast<int64_t>(kLongGraph / std::max(once, 1e-3)), 1, runs);
  RecordedGraph graph(device.driver());
  const auto launch_all = [&]() -> Result<void> {
    for (int64_t run = 0; run < runs; ++run) STRATA_CHECK(launch(run % sets));
    return {};
  };
  STRATA_CHECK(graph.record(device.stream(), launch_all));
  const double all = std::max(once * static_cast<double>(runs), 1.0);
  const int replays = std::clamp(static_cast<int>(std::min(kLongReplays / all, 1e3)), kLeastReplays, kReplays);
  for (int warm = 0; warm < std::min(3, replays - 2); ++warm) STRATA_CHECK(graph.launch(device.stream()));
  std::vector<double> times;
  for (int i = 0; i < replays; ++i) {
    STRATA_TRY(const double time, timed(device, [&] { return graph.launch(device.stream()); }));
    times.push_back(time / static_cast<double>(runs));
  }
  std::nth_element(times.begin(), times.begin() + replays / 2, times.end());
  return times[static_cast<size_t>(replays / 2)];
}

Result<std::vector<double>> repeated_seconds(const GpuDevice& device, std::string_view what, int repeats, int64_t sets,
                                             const std::function<Result<void>(int64_t set)>& launch) {
  std::vector<double> values;
  for (int i = 0; i < std::max(1, repeats); ++i) {
    STRATA_TRY(const double microseconds, replayed_microseconds(device, sets, launch));
    if (microseconds <= 0) return environment("'{}' took no time", what);
    values.push_back(microseconds * 1e-6);
  }
  return values;
}

}  // namespace strata
