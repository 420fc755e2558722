#include "runtime/calibrate_events.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "machine/rates.h"
#include "runtime/calibrate_event_kernels.h"
#include "runtime/replay.h"

namespace strata {
namespace {

/// More than there are groups (strata_epochs), and so many that a launch's start does not count.
constexpr int64_t kEpochs = 1024;
/// The most of a rate's repeats over the least of them.
constexpr double kWidest = 2;
constexpr unsigned kBulkThreads = 32;   // of a block, beside its team: one of them loads
constexpr unsigned kLoadThreads = 768;  // each with four vectors on their way: 48 KB of a multiprocessor
constexpr std::array<int64_t, 3> kFewTriggers{1, 4, 16};

/// One of the rates, and what it is of an H200 by these kernels (2026-11-30). An epoch has stores and a barrier
/// besides, so the built-in rates, by which whole plans take what they took, are less: of another GPU a rate is the
/// built-in one times its share of an H200's.
struct EventRate {
  const char* name;
  double of_h200;

  double from(double measured) const { return Rates{}.*find_rate(name)->member * measured / of_h200; }
};

/// A way to hand over, and its rates.
struct HandOver {
  const char* name;  ///< of observations
  const char* kernel;
  EventRate least, per_doubling, at_full_memory;
};
constexpr std::array<HandOver, 2> kHandOvers{HandOver{"counter event",
                                                      "strata_counters",
                                                      {"counter_event", 1.343e-6},
                                                      {"counter_doubling", 0.054e-6},
                                                      {"counter_at_full_memory", 1.933}},
                                             HandOver{"tagged event",
                                                      "strata_tagged",
                                                      {"tagged_event", 0.977e-6},
                                                      {"tagged_doubling", 0.1173e-6},
                                                      {"tagged_at_full_memory", 0.2834}}};

class Events {
 public:
  Events(const EventBench& bench, CalibrationRun& run) : bench_(bench), run_(run) {}

  Result<void> prepare() {
    const GpuDevice& device = bench_.device;
    STRATA_TRY(const int cooperative, device.attribute(CudaDriver::kCooperativeLaunch, "cooperative launches"));
    if (cooperative == 0) return environment("{} has no cooperative launches", device.name());
    STRATA_TRY(multiprocessors_, device.attribute(CudaDriver::kMultiprocessors, "multiprocessors"));
    if (multiprocessors_ < 4 || multiprocessors_ > kMostEventBlocks)
      return unsupported("{} has {} multiprocessors", device.name(), multiprocessors_);
    STRATA_TRY(GpuMemory memory, GpuMemory::allocate(device, kEventBytes));
    memory_.emplace(std::move(memory));
    return {};
  }

  Result<void> measure(const HandOver& by) {
    std::vector<int64_t> triggers;
    const int64_t most = multiprocessors_ / 2;  // of one half for the other
    for (const int64_t few : kFewTriggers) {
      if (few < most) triggers.push_back(few);
    }
    triggers.push_back(most);
    std::vector<std::vector<double>> idle;  // by triggers and repeat
    for (const int64_t n : triggers) {
      STRATA_TRY(std::vector<double> times, seconds_of(by, n, false));
      idle.push_back(std::move(times));
    }
    STRATA_TRY(const std::vector<double> busy, seconds_of(by, most, true));
    std::vector<double> least, per_doubling, at_full_memory;
    for (size_t repeat = 0; repeat < busy.size(); ++repeat) {
      std::vector<EventTime> times;
      for (size_t n = 0; n < triggers.size(); ++n) times.push_back({triggers[n], idle[n][repeat]});
      const EventLine line = fit_events(times);
      least.push_back(by.least.from(line.least));
      per_doubling.push_back(by.per_doubling.from(line.per_doubling));
      at_full_memory.push_back(by.at_full_memory.from(busy[repeat] / idle.back()[repeat] - 1));
    }
    // One without the other is no line.
    keep({{by.least.name, least}, {by.per_doubling.name, per_doubling}});
    keep({{by.at_full_memory.name, at_full_memory}});
    return {};
  }

 private:
  /// Of an event, in each repeat; their median is an observation.
  Result<std::vector<double>> seconds_of(const HandOver& by, int64_t triggers, bool is_busy) {
    const std::string name = fmt::format("{} of {}{}, s", by.name, triggers, is_busy ? ", busy" : "");
    if (bench_.options.progress) bench_.options.progress(name);
    const GpuDevice& device = bench_.device;
    const CudaDriver& driver = device.driver();
    CudaFunction function = nullptr;
    STRATA_CHECK(driver.check(driver.get_function(&function, bench_.module, by.kernel), by.kernel));
    const unsigned threads = kEventTeam + (!is_busy ? 0 : bench_.bulk_copies ? kBulkThreads : kLoadThreads);
    const int64_t blocks = multiprocessors_ / triggers * triggers;
    int of_one = 0;
    STRATA_CHECK(driver.check(driver.blocks_per_multiprocessor(&of_one, function, static_cast<int>(threads), 0),
                              "asking for occupancy"));
    if (blocks > int64_t{of_one} * multiprocessors_)
      return unsupported("{} does not run {} blocks of {} threads at the same time", device.name(), blocks, threads);
    STRATA_CHECK(memory_->clear());
    const auto launch = [&](int64_t) -> Result<void> {
      CudaPointer from = bench_.memory, memory = memory_->pointer();
      int64_t vectors = is_busy ? bench_.vectors : 0, fan_in = triggers, epochs = kEpochs;
      std::array<void*, 5> arguments{&from, &vectors, &memory, &fan_in, &epochs};
      CudaLaunchAttribute attribute;
      attribute.id = CudaLaunchAttribute::kCooperative;
      attribute.value = {1};
      CudaLaunchConfig config;
      config.grid[0] = static_cast<unsigned>(blocks);
      config.block[0] = threads;
      config.stream = device.stream();
      config.attributes = &attribute;
      config.attribute_count = 1;
      return driver.check(driver.launch(&config, function, arguments.data(), nullptr), by.kernel);
    };
    STRATA_TRY(std::vector<double> times, repeated_seconds(device, name, bench_.options.repeats, 1, launch));
    STRATA_TRY(const std::string words, memory_->download());
    unsigned failed = 0;
    std::memcpy(&failed, words.data() + kEventFailed, sizeof failed);
    if (failed != 0)
      return environment(
          "{} of {}: {}", by.kernel, device.name(),
          failed == kEventWaitedLong ? "a block waited for another for a second" : "an event came before its data");
    for (double& time : times) time /= static_cast<double>(kEpochs);
    run_.calibration.rates.push_back(measured_rate(name, times));
    return times;
  }

  /// All of them, or none where one is not to be believed.
  void keep(const std::vector<std::pair<const char*, std::vector<double>>>& rates) {
    std::vector<MeasuredRate> kept;
    for (const auto& [name, values] : rates) {
      if (bench_.options.progress) bench_.options.progress(name);
      kept.push_back(measured_rate(name, values));
    }
    for (const MeasuredRate& one : kept) {
      if (one.low > 0 && one.high <= kWidest * one.low) continue;
      for (const MeasuredRate& left : kept)
        run_.notes.push_back(
            fmt::format("{} was not measured: {} is from {:.4g} to {:.4g} in {} repeats; see that "
                        "nothing else uses the GPU",
                        left.name, &left == &one ? "it" : one.name, one.low, one.high, rates.front().second.size()));
      return;
    }
    for (MeasuredRate& one : kept) run_.calibration.rates.push_back(std::move(one));
  }

  const EventBench& bench_;
  CalibrationRun& run_;
  int multiprocessors_ = 0;
  std::optional<GpuMemory> memory_;
};

}  // namespace

EventLine fit_events(std::span<const EventTime> times) {
  const auto count = static_cast<double>(times.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const EventTime& one : times) {
    const double doublings = std::log2(static_cast<double>(one.triggers));
    x += doublings / count;
    y += one.seconds / count;
    xx += doublings * doublings / count;
    xy += doublings * one.seconds / count;
  }
  const double per_doubling = (xy - x * y) / (xx - x * x);
  return {y - per_doubling * x, per_doubling};
}

void measure_events(const EventBench& bench, CalibrationRun& run) {
  Events events(bench, run);
  const Result<void> prepared = events.prepare();
  for (const HandOver& by : kHandOvers) {
    const Result<void> measured = prepared ? events.measure(by) : prepared;
    if (measured) continue;
    for (const EventRate& rate : {by.least, by.per_doubling, by.at_full_memory})
      run.notes.push_back(fmt::format("{} was not measured: {}", rate.name, measured.error().to_string()));
  }
}

}  // namespace strata
