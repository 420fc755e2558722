#include "runtime/replay.h"

#include <algorithm>
#include <vector>

namespace strata {
namespace {

constexpr int64_t kRunsOfGraph = 20;
constexpr int kReplays = 20;
constexpr int kLeastReplays = 3;
/// Microseconds that one graph, and all its replays, should not exceed.
constexpr double kLongGraph = 2e4;
constexpr double kLongReplays = 2e5;

/// Launches recorded once and replayed as a whole.
class ReplayedGraph {
 public:
  explicit ReplayedGraph(const GpuDevice& device) : device_(device) {}
  ~ReplayedGraph() {
    if (exec_ != nullptr) device_.driver().destroy_graph_exec(exec_);
    if (graph_ != nullptr) device_.driver().destroy_graph(graph_);
  }
  ReplayedGraph(const ReplayedGraph&) = delete;
  ReplayedGraph& operator=(const ReplayedGraph&) = delete;

  template <class Work>
  Result<void> record(const Work& work) {
    const CudaDriver& driver = device_.driver();
    STRATA_CHECK(driver.check(driver.begin_capture(device_.stream(), CudaDriver::kCaptureThreadLocal), "recording"));
    const Result<void> worked = work();
    // The stream is left in order even where the work failed.
    const int ended = driver.end_capture(device_.stream(), &graph_);
    STRATA_CHECK(worked);
    STRATA_CHECK(driver.check(ended, "recording a graph"));
    return driver.check(driver.instantiate_graph(&exec_, graph_, 0), "instantiating a graph");
  }
  Result<void> replay() const {
    return device_.driver().check(device_.driver().launch_graph(exec_, device_.stream()), "replaying a graph");
  }

 private:
  const GpuDevice& device_;
  CudaGraph graph_ = nullptr;
  CudaGraphExec exec_ = nullptr;
};

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
  ReplayedGraph graph(device);
  const auto launch_all = [&]() -> Result<void> {
    for (int64_t run = 0; run < runs; ++run) STRATA_CHECK(launch(run % sets));
    return {};
  };
  STRATA_CHECK(graph.record(launch_all));
  const double all = std::max(once * static_cast<double>(runs), 1.0);
  const int replays = std::clamp(static_cast<int>(std::min(kLongReplays / all, 1e3)), kLeastReplays, kReplays);
  for (int warm = 0; warm < std::min(3, replays - 2); ++warm) STRATA_CHECK(graph.replay());
  std::vector<double> times;
  for (int i = 0; i < replays; ++i) {
    STRATA_TRY(const double time, timed(device, [&] { return graph.replay(); }));
    times.push_back(time / static_cast<double>(runs));
  }
  std::nth_element(times.begin(), times.begin() + replays / 2, times.end());
  return times[static_cast<size_t>(replays / 2)];
}

}  // namespace strata
