// What the loader asks the second-level cache for while the ring is full.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "megakernel/runtime/core/worker.h"
#include "megakernel/runtime/test_bench.h"

namespace strata::megakernel {
namespace {

using Ask = std::pair<const unsigned char*, unsigned>;

/// Copies land at once. After so many looks at barriers in a row the test is called: compute gives a stage back.
struct AskingPlatform : HostPlatform {
  using Handle = AskingPlatform&;
  Handle handle() { return *this; }
  using HostPlatform::HostPlatform;

  void copy(void*, const void*, unsigned bytes, Barrier& barrier) { barrier.complete(bytes); }
  void prefetch(const void* from, unsigned bytes) {
    EXPECT_EQ(bytes % 16, 0U);
    asks.emplace_back(static_cast<const unsigned char*>(from), bytes);
  }
  bool passed_yet(Barrier& barrier, unsigned phase) {
    constexpr int kPatience = 60;
    if (++looks > kPatience) {
      looks = 0;
      after_looks();
    }
    return passed(barrier, phase);
  }

  std::vector<Ask> asks;
  int looks = 0;
  std::function<void()> after_looks;
};

/// A task of stages of 6 KB in a ring of four, which lie 8 KB apart.
class Ahead : public testing::Test {
 protected:
  static constexpr unsigned kStage = 6 * kStageUnit, kStride = 8 * kStageUnit, kStages = 12;

  /// What was asked for, with so many bytes ahead of the ring.
  std::vector<Ask> asked(unsigned ahead_bytes) {
    Bench<AskingPlatform> bench(4 * kStage);
    bench.program.ahead_bytes = ahead_bytes;
    Context<AskingPlatform> l{bench.platform, bench.program, Role::Load, 0};
    Context<AskingPlatform> c{bench.platform, bench.program, Role::Compute, 0};
    LoadSide<AskingPlatform> load(l, bench.memory);
    ComputeSide<AskingPlatform> compute(c, bench.memory);
    int given_back = 0;
    bench.platform.after_looks = [&] { compute.release(given_back++, 1); };
    Descriptor entry{};
    load.begin_task();
    for (unsigned n = 0; n < kStages; ++n) {
      bench.platform.looks = 0;
      load.push(constants.data() + size_t{n} * kStride, kStage, kStages - n, kStride);
    }
    load.end_task(entry);
    EXPECT_EQ(entry.filled[0], kStages);
    EXPECT_EQ(l.left, Verdict::Ready);
    return bench.platform.asks;
  }

  /// A stage's two asks: no ask goes further than its stage.
  void add_stage(std::vector<Ask>& asks, size_t stage) const {
    asks.emplace_back(constants.data() + stage * kStride, 4096);
    asks.emplace_back(constants.data() + stage * kStride + 4096, 2048);
  }

  std::vector<unsigned char> constants = std::vector<unsigned char>(kStages * kStride);
};

/// All that the ring has no room for, once.
TEST_F(Ahead, TheRestOfTheTask) {
  std::vector<Ask> all;
  for (size_t stage = 4; stage < kStages; ++stage) add_stage(all, stage);
  EXPECT_EQ(asked(16 * kStage), all);
}

/// No more than that from the stage on for which there is no room; as stages come, so does what is asked for.
TEST_F(Ahead, NoFurtherThanAllowed) {
  const std::vector<Ask> asks = asked(kStage + 2048);
  ASSERT_GE(asks.size(), 3U);
  std::vector<Ask> begin;
  add_stage(begin, 4);
  begin.emplace_back(constants.data() + 5 * kStride, 2048);
  EXPECT_EQ(std::vector<Ask>(asks.begin(), asks.begin() + 3), begin);
  unsigned in_all = 0;
  for (const auto& [from, bytes] : asks) {
    const auto at = static_cast<size_t>(from - constants.data());
    EXPECT_LT(at, constants.size());
    EXPECT_LE(at % kStride + bytes, kStage) << "nothing between stages is asked for";
    in_all += bytes;
  }
  EXPECT_LE(in_all, kStages * kStage) << "nothing is asked for twice";
}

TEST_F(Ahead, NothingWhereNothingMayBeAhead) { EXPECT_TRUE(asked(0).empty()); }

/// Whether the second of two tasks is listed while the loads of the first one have not been issued.
bool is_listed_ahead(unsigned without) {
  Bench<HostPlatform> bench(4 * kStageUnit);
  std::vector<QueuedTask> queued(2);
  for (size_t n = 0; n < queued.size(); ++n) queued[n].record.task = static_cast<int>(n);
  const std::vector<int> queue_first{0, 2};
  std::vector<HostCounter> started(2);
  bench.program.queue_first = queue_first.data();
  bench.program.queued = queued.data();
  bench.program.started = started.data();
  bench.program.first_epoch = bench.program.last_epoch = 1;
  bench.program.without = without;
  bench.program.limit = bench.program.start_limit = 60'000'000'000;
  HostPlatform& here = bench.platform;
  here.store_release(bench.step, 2);
  std::thread control([&] {
    HostPlatform platform(bench.machine, 5);
    run_control<false>(platform, bench.program, bench.memory, 0);
  });
  const auto is_listed = [&](size_t entry) { return here.passed(bench.listed[entry], 0); };
  while (!is_listed(0)) std::this_thread::yield();
  bool ahead = false;
  const auto patience = std::chrono::steady_clock::now() + std::chrono::milliseconds(without == 0 ? 10'000 : 100);
  while (!ahead && std::chrono::steady_clock::now() < patience) ahead = is_listed(1);
  here.post(bench.loaded, 1);
  while (!is_listed(1)) std::this_thread::yield();
  EXPECT_EQ(bench.list[1].record.task, 1);
  for (HostCounter& role : bench.running) here.post(role, kHasLeft);
  here.store_release(bench.step, 3);
  control.join();
  return ahead;
}

TEST(DescriptorsAhead, ComeBeforeTheLoadsOfTheTaskBeforeUnlessLeftOut) {
  EXPECT_TRUE(is_listed_ahead(0));
  EXPECT_TRUE(is_listed_ahead(kConstantsAhead));
  EXPECT_FALSE(is_listed_ahead(kDescriptorsAhead));
}

}  // namespace
}  // namespace strata::megakernel
