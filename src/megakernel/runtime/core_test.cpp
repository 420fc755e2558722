// The parts of the core one by one, on the host's platform.
#include <gtest/gtest.h>

#include "megakernel/runtime/core/scheduler.h"
#include "megakernel/runtime/core/worker.h"
#include "megakernel/runtime/test_bench.h"

namespace strata::megakernel {
namespace {

Context<HostPlatform> context(Bench<HostPlatform>& bench, Role role) {
  return {bench.platform, bench.program, role, 0};
}

TEST(Barrier, APhaseEndsWhenArrivalsAndBytesHaveCome) {
  HostBarrier barrier;
  barrier.start(2);
  barrier.arrive(1, 32);
  barrier.complete(32);
  EXPECT_EQ(barrier.phases(), 0u) << "one arrival is missing";
  barrier.arrive(1, 16);
  EXPECT_EQ(barrier.phases(), 0u) << "16 bytes are missing";
  barrier.complete(16);
  EXPECT_EQ(barrier.phases(), 1u);
  barrier.arrive();
  barrier.arrive();
  EXPECT_EQ(barrier.phases(), 2u) << "the next phase has the same arrivals";
}

TEST(Barrier, AWaiterMoreThanOnePhaseAwayIsFound) {
  HostMachine machine;
  HostPlatform platform(machine, 1);
  HostBarrier barrier;
  barrier.start(1);
  EXPECT_TRUE(platform.passed(barrier, ~0u)) << "before the first phase nothing is waited for";
  EXPECT_FALSE(platform.passed(barrier, 0));
  barrier.arrive();
  EXPECT_TRUE(platform.passed(barrier, 0));
  EXPECT_FALSE(platform.passed(barrier, 1));
  EXPECT_FALSE(machine.phase_error);
  barrier.arrive();
  platform.passed(barrier, 0);
  EXPECT_TRUE(machine.phase_error);
}

TEST(Counters, DifferencesHaveSignsAcrossTheWrap) {
  EXPECT_TRUE(reached(5, 5));
  EXPECT_TRUE(reached(6, 5));
  EXPECT_FALSE(reached(4, 5));
  EXPECT_TRUE(reached(2, 0xfffffffeu));
  EXPECT_FALSE(reached(0xfffffffeu, 2));
}

TEST(Counters, AnEventIsActiveAtTriggersTimesEpoch) {
  Bench<HostPlatform> bench(kStageUnit);
  auto c = context(bench, Role::Compute);
  const int waits[] = {0, 2};
  Waited waited{};
  // 3 · 2³⁰ wraps, as 2 · 2³⁰ does not.
  for (const unsigned epoch : {1u, 2u, 1u << 30}) {
    bench.event(0).value = 3 * epoch;
    bench.event(2).value = 2 * epoch - 1;
    EXPECT_FALSE(active(c, waits, 2, epoch, waited));
    EXPECT_EQ(waited.object, 2);
    EXPECT_EQ(waited.have + 1, waited.want);
    bench.platform.add_release(bench.event(2), 1);
    EXPECT_TRUE(active(c, waits, 2, epoch, waited));
    EXPECT_FALSE(active(c, waits, 2, epoch + 1, waited));
  }
}

std::vector<unsigned> report_of(const Bench<HostPlatform>& bench, Role role) {
  std::vector<unsigned> words;
  for (int i = 0; i < 6; ++i) words.push_back(bench.reports[static_cast<int>(role) * kReportWords + i].value);
  return words;
}

TEST(Waits, OneThatLastsTooLongReportsWhatItWaitedFor) {
  Bench<HostPlatform> bench(kStageUnit);
  auto c = context(bench, Role::Compute);
  c.task = 17;
  c.epoch = 4;
  bench.event(3).value = 19;
  const int waits[] = {3};
  EXPECT_EQ(wait_for_inputs(c, false, waits, 1, 4), Verdict::Abort);
  EXPECT_EQ(bench.abort.value, static_cast<unsigned>(c.report()) + 1);
  EXPECT_EQ(report_of(bench, Role::Compute),
            (std::vector<unsigned>{static_cast<unsigned>(Activity::Event), 17, 4, 3, 19, 20}));
}

/// A wait may last over several steps, each shorter than the limit. Each look at the clock takes 30 ms, and each tenth
/// ends a step.
TEST(Waits, TheLimitCountsWithinAStep) {
  struct Clocked : HostPlatform {
    using Handle = Clocked&;
    Handle handle() { return *this; }
    using HostPlatform::HostPlatform;
    HostCounter* step = nullptr;
    HostCounter* event = nullptr;
    unsigned long long looks = 0;
    unsigned long long clock() {
      ++looks;
      if (step != nullptr && looks % 10 == 0) step->value += 2;
      if (looks == 100) event->value = 1;
      return looks * 30'000'000;
    }
  };
  for (const bool steps_end : {true, false}) {
    Bench<Clocked> bench(kStageUnit);
    bench.program.limit = 400'000'000;
    bench.platform.step = steps_end ? &bench.step : nullptr;
    bench.platform.event = &bench.event(1);
    Context<Clocked> c{bench.platform, bench.program, Role::Load, 0};
    const int waits[] = {1};
    EXPECT_EQ(wait_for_inputs(c, false, waits, 1, 1), steps_end ? Verdict::Ready : Verdict::Abort);
  }
}

/// One thread of a role writes its report, whichever it is that gives up.
TEST(Waits, ATeamHasOneReport) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    Bench<HostPlatform> bench(4 * kStageUnit, 16, 1u << 20, 2, 2);
    bench.program.limit = 2'000'000;
    std::atomic<int> reported{0};
    bench.as_team([&](HostPlatform& platform) {
      Context<HostPlatform> c{platform, bench.program, Role::Compute, 0, 5, 3};
      // Each warp waits for a stage of its own, which does not come.
      const auto stage = static_cast<unsigned>(platform.warp());
      EXPECT_EQ(wait_for_phase<Scope::Warp>(c, Activity::StageFull, platform.warp(), bench.full[stage], 0),
                Verdict::Abort);
      EXPECT_TRUE(platform.any(c.left == Verdict::Abort));
      if (c.reported) ++reported;
      if (platform.leads()) end_role(c, {Activity::Running, -1, 0, 0});
    });
    EXPECT_EQ(reported, 1);
    EXPECT_FALSE(bench.machine.team_error);
    EXPECT_EQ(bench.abort.value, static_cast<unsigned>(Role::Compute) + 1);
    const std::vector<unsigned> words = report_of(bench, Role::Compute);
    EXPECT_EQ(words[0], static_cast<unsigned>(Activity::StageFull));
    EXPECT_EQ(words[1], 5u);
    EXPECT_LT(words[3], 2u);
  }
}

/// Where another role is the cause, a warp that waits reports what for, though the leader leaves too.
TEST(Waits, AWarpThatWaitsReportsAfterAnothersAbort) {
  Bench<HostPlatform> bench(4 * kStageUnit, 16, 1u << 20, 2, 2);
  bench.program.limit = 60'000'000'000;
  bench.abort.value = 1;
  bench.as_team([&](HostPlatform& platform) {
    Context<HostPlatform> c{platform, bench.program, Role::Compute, 0, 5, 3};
    if (platform.warp() == 1) {
      EXPECT_EQ(wait_for_phase<Scope::Warp>(c, Activity::StageFull, 1, bench.full[1], 0), Verdict::Abort);
    }
    EXPECT_TRUE(platform.any(c.left == Verdict::Abort));
    EXPECT_EQ(c.reported, platform.warp() == 1 && platform.leads_warp());
    if (platform.leads()) end_role(c, {Activity::Running, 0, 0, 0});
  });
  EXPECT_EQ(report_of(bench, Role::Compute)[0], static_cast<unsigned>(Activity::StageFull));
}

TEST(Team, ThreadsThatDoNotMeetAreFound) {
  HostMachine machine;
  machine.meet_limit = std::chrono::milliseconds(50);
  HostTeam team(1, 2);
  HostPlatform alone(machine, 1, &team, 0);
  alone.meet_warp();
  EXPECT_TRUE(machine.team_error);
}

TEST(Team, ThreadsThatMeetForDifferentThingsAreFound) {
  Bench<HostPlatform> bench(kStageUnit, 8, 16, 2, 1);
  bench.as_team([&](HostPlatform& platform) {
    if (platform.rank() == 0) {
      platform.meet();
    } else {
      platform.any(false);
    }
  });
  EXPECT_TRUE(bench.machine.team_error);
}

TEST(Team, KnowsWhatItsLanesSay) {
  Bench<HostPlatform> bench(kStageUnit, 8, 16, 2, 3);
  bench.as_team([&](HostPlatform& platform) {
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(platform.first_lane(platform.lane() >= 1 && i % 2 == 0), i % 2 == 0 ? 1 : -1);
      EXPECT_EQ(platform.share(static_cast<unsigned>(100 * platform.rank() + i), 2),
                static_cast<unsigned>(100 * (3 * platform.warp() + 2) + i));
      EXPECT_EQ(platform.any(platform.rank() == i % 12), i % 12 < 6);
    }
  });
  EXPECT_FALSE(bench.machine.team_error);
}

/// Every word comes to one lane, whatever their number is, as soon as all are of this epoch.
TEST(Tagged, AWarpReadsARange) {
  for (const int lanes : {1, 2, 3}) {
    for (const int count : {0, 1, 2, 7, 8, 9, 16, 17, 40}) {
      Bench<HostPlatform> bench(kStageUnit, 8, 16, 1, lanes);
      bench.program.limit = 60'000'000'000;
      std::vector<HostTaggedWord> words(static_cast<size_t>(count));
      const auto write = [&](int i) {
        write_tagged(bench.platform, words[static_cast<size_t>(i)], 100u + static_cast<unsigned>(i), 7, 6);
      };
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      std::thread late([&] {
        // The first one comes before the others, the last of them last.
        for (int i = 0; i < count; ++i) {
          write(i * (count % 2 + 1) % std::max(count, 1));
          if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
        }
        for (int i = 0; i < count; ++i) write(i);
      });
      bench.as_team([&](HostPlatform& platform) {
        Context<HostPlatform> c{platform, bench.program, Role::Compute, 0};
        const Verdict verdict = read_tagged(
            c, [&](int i) -> const auto& { return words[static_cast<size_t>(i)]; }, count, 6,
            [&](int i, const Tagged& word) {
              ++seen[static_cast<size_t>(i)];
              EXPECT_EQ(i % lanes, platform.lane());
              EXPECT_EQ(word.data[0], 100u + static_cast<unsigned>(i));
              EXPECT_EQ(word.data[1], 7u);
            });
        EXPECT_EQ(verdict, Verdict::Ready);
      });
      late.join();
      for (const auto& times : seen) EXPECT_EQ(times, 1);
    }
  }
}

TEST(Tagged, AMissingWordIsReported) {
  for (const int missing : {0, 5, 19}) {
    Bench<HostPlatform> bench(kStageUnit, 8, 16, 1, 2);
    std::vector<HostTaggedWord> words(20);
    for (int i = 0; i < 20; ++i)
      write_tagged(bench.platform, words[static_cast<size_t>(i)], 0, 0, i == missing ? 1 : 2);
    bench.as_team([&](HostPlatform& platform) {
      Context<HostPlatform> c{platform, bench.program, Role::Compute, 0};
      const auto take = [&](int i, const Tagged&) { EXPECT_LT(i, 16) << "of a batch that is not complete"; };
      EXPECT_EQ(read_tagged(
                    c, [&](int i) -> const auto& { return words[static_cast<size_t>(i)]; }, 20, 2, take),
                Verdict::Abort);
    });
    EXPECT_FALSE(bench.machine.team_error);
    const std::vector<unsigned> words_of_report = report_of(bench, Role::Compute);
    EXPECT_EQ(words_of_report[0], static_cast<unsigned>(Activity::Tags));
    EXPECT_EQ(words_of_report[3], static_cast<unsigned>(missing));
    EXPECT_EQ(words_of_report[4], 1u);
    EXPECT_EQ(words_of_report[5], 2u);
  }
}

struct RandomRun {
  int count;
  unsigned bytes;
  bool shared;
};

/// Stages come out as they were filled, whatever the ring's size, the stages' sizes and the warps that use them, and
/// however late copies are.
TEST(Ring, StagesOfAnySizeComeOutAsTheyWereFilled) {
  Random random(5);
  for (int repeat = 0; repeat < 24; ++repeat) {
    const int warps = 1 << random.below(2);
    const int lanes = 1 + static_cast<int>(random.below(2));
    const unsigned units = 1 + static_cast<unsigned>(random.below(9));
    Bench<HostPlatform> bench(units * kStageUnit, static_cast<unsigned>(warps) << (2 + random.below(2)),
                              1 + static_cast<unsigned>(random.below(5000)), warps, lanes);
    bench.program.limit = 60'000'000'000;
    bench.machine.delays = random.below(2) == 0;
    LateStores stores(static_cast<uint64_t>(repeat));
    if (random.below(3) != 0) bench.machine.late = &stores;
    std::vector<RandomRun> runs;
    for (int r = 0; r < 12; ++r)
      runs.push_back({static_cast<int>(random.below(9)),
                      16 * (1 + static_cast<unsigned>(random.below(units * kStageUnit / 16))), random.below(2) == 0});
    std::vector<unsigned char> constant(units * kStageUnit + 256);
    for (auto& byte : constant) byte = static_cast<unsigned char>(random());
    std::thread loader([&] {
      HostPlatform platform(bench.machine, 2);
      Context<HostPlatform> c{platform, bench.program, Role::Load, 0};
      LoadSide<HostPlatform> side(c, bench.memory);
      int number = 0;
      Descriptor entry{};
      side.begin_task();
      for (const RandomRun& run : runs)
        for (int n = 0; n < run.count; ++n) side.push(constant.data() + number++ % 256, run.bytes);
      side.end_task(entry);
      EXPECT_EQ(entry.filled[0], static_cast<unsigned>(number));
      side.drain();
    });
    bench.as_team([&](HostPlatform& platform) {
      Context<HostPlatform> c{platform, bench.program, Role::Compute, 0};
      ComputeSide<HostPlatform> side(c, bench.memory);
      Descriptor entry{};
      side.begin_task();
      int number = 0;
      for (const RandomRun& run : runs) {
        for (int n = 0; n < run.count; ++n) {
          if (!run.shared && (number + n) % warps != platform.warp()) continue;
          const unsigned char* const stage = side.stage(n, run.bytes);
          EXPECT_EQ(std::memcmp(stage, constant.data() + (number + n) % 256, run.bytes), 0);
          side.release(n, run.shared ? warps : 1);
        }
        side.advance(run.count, run.bytes);
        number += run.count;
      }
      side.end_task(entry);
      EXPECT_EQ(entry.used[0], static_cast<unsigned>(number));
    });
    loader.join();
    EXPECT_FALSE(bench.machine.phase_error);
    EXPECT_FALSE(bench.machine.team_error);
  }
}

/// Both sides come to the same place, by steps of any length.
TEST(Ring, LoadAndComputeAgreeOnPlaces) {
  struct Placed : HostPlatform {
    using Handle = Placed&;
    Handle handle() { return *this; }
    using HostPlatform::HostPlatform;
    std::vector<const void*> places;
    void copy(void* to, const void*, unsigned bytes, Barrier& barrier) {
      places.push_back(to);
      barrier.complete(bytes);
    }
  };
  Random random(9);
  for (int repeat = 0; repeat < 200; ++repeat) {
    Bench<Placed> bench((1 + static_cast<unsigned>(random.below(12))) * kStageUnit, 32);
    Context<Placed> l{bench.platform, bench.program, Role::Load, 0};
    Context<Placed> c{bench.platform, bench.program, Role::Compute, 0};
    LoadSide<Placed> load(l, bench.memory);
    ComputeSide<Placed> compute(c, bench.memory);
    for (int run = 0; run < 20; ++run) {
      const unsigned bytes = 16 * (1 + static_cast<unsigned>(random.below(bench.program.ring_bytes / 16)));
      const int fit = static_cast<int>(bench.program.ring_bytes / stage_room(bytes));
      // One may be lost at the ring's end.
      const int count = 1 + static_cast<int>(random.below(static_cast<uint64_t>(std::max(fit - 1, 1))));
      // What runs before it has released all.
      bench.platform.places.clear();
      for (int n = 0; n < count; ++n) {
        load.push(nullptr, bytes);
        if (random.below(2) != 0) continue;
        EXPECT_EQ(compute.stage(n, bytes), bench.platform.places[static_cast<size_t>(n)]);
      }
      for (int n = 0; n < count; ++n) compute.release(n, 1);
      compute.advance(count, bytes);
      ASSERT_EQ(l.left, Verdict::Ready);
      ASSERT_EQ(c.left, Verdict::Ready);
    }
  }
}

/// A copy starts only when the window has room, though the ring has: a barrier that never sees its bytes holds it up.
/// And at most half of the barriers are in flight.
TEST(Ring, BytesInFlightStayInTheWindow) {
  struct Held : HostPlatform {
    using Handle = Held&;
    Handle handle() { return *this; }
    using HostPlatform::HostPlatform;
    unsigned flying = 0;
    void copy(void*, const void*, unsigned bytes, Barrier&) { flying += bytes; }
  };
  for (const unsigned window : {16u, 40u, 64u, 1000u}) {
    Bench<Held> bench(16 * kStageUnit, 16, window);
    Context<Held> c{bench.platform, bench.program, Role::Load, 0};
    LoadSide<Held> side(c, bench.memory);
    const unsigned char constant[16] = {};
    while (c.left == Verdict::Ready) side.push(constant, 16);
    EXPECT_EQ(bench.platform.flying, std::min(window / 16 * 16, 8u * 16));
    EXPECT_EQ(bench.reports[static_cast<int>(Role::Load) * kReportWords].value,
              static_cast<unsigned>(Activity::Window));
  }
}

/// One that is larger than the window is in flight alone.
TEST(Ring, ALargeCopyIsNotHeldUpForEver) {
  Bench<HostPlatform> bench(3 * kStageUnit, 8, 4);
  auto c = context(bench, Role::Load);
  LoadSide<HostPlatform> side(c, bench.memory);
  const unsigned char constant[16] = {};
  for (int i = 0; i < 3; ++i) side.push(constant, 16);
  EXPECT_EQ(c.left, Verdict::Ready);
}

/// A stage is not filled before compute is done with what lies there.
TEST(Ring, AFullRingHoldsTheLoaderUp) {
  Bench<HostPlatform> bench(2 * kStageUnit);
  auto c = context(bench, Role::Load);
  LoadSide<HostPlatform> side(c, bench.memory);
  const unsigned char first[16] = {1}, second[16] = {2}, third[16] = {3};
  side.push(first, 16);
  side.push(second, 16);
  side.push(third, 16);
  EXPECT_EQ(c.left, Verdict::Abort);
  EXPECT_EQ(bench.ring[0], 1);
  const std::vector<unsigned> words = report_of(bench, Role::Load);
  EXPECT_EQ(words[0], static_cast<unsigned>(Activity::Room));
  EXPECT_EQ(words[3], 0u);
}

/// A stage that does not fit before the ring's end begins at its beginning, and what it leaves free there is taken.
TEST(Ring, AStageDoesNotLieAcrossTheEnd) {
  Bench<HostPlatform> bench(4 * kStageUnit);
  auto l = context(bench, Role::Load);
  auto c = context(bench, Role::Compute);
  LoadSide<HostPlatform> load(l, bench.memory);
  ComputeSide<HostPlatform> compute(c, bench.memory);
  const std::vector<unsigned char> constant(3 * kStageUnit, 5);
  const auto use = [&](unsigned bytes) {
    const unsigned char* const stage = compute.stage(0, bytes);
    compute.release(0, 1);
    compute.advance(1, bytes);
    return stage - bench.ring.data();
  };
  load.push(constant.data(), 1024);
  load.push(constant.data(), 2048);  // [1, 3)
  EXPECT_EQ(use(1024), 0);
  EXPECT_EQ(use(2048), 1024);
  load.push(constant.data(), 3072);  // all is free: [0, 3), and the rest too
  load.push(constant.data(), 1024);  // [3, 4)
  EXPECT_EQ(l.left, Verdict::Ready);
  EXPECT_EQ(use(3072), 0);
  EXPECT_EQ(use(1024), 3072);
  load.push(constant.data(), 1024);  // [0, 1)
  load.push(constant.data(), 2048);  // [1, 3)
  EXPECT_EQ(use(1024), 0);
  load.push(constant.data(), 2048);  // does not fit into [3, 4), nor into [0, 1)
  EXPECT_EQ(l.left, Verdict::Abort);
}

/// After an abort: no wait, and a place in the ring.
TEST(Ring, AfterAnAbortStagesLieInTheRing) {
  Bench<HostPlatform> bench(4 * kStageUnit, 16, 1u << 20, 2, 2);
  bench.as_team([&](HostPlatform& platform) {
    Context<HostPlatform> c{platform, bench.program, Role::Compute, 0};
    c.left = Verdict::Abort;
    ComputeSide<HostPlatform> side(c, bench.memory);
    for (int run = 0; run < 10; ++run) {
      for (int n = 0; n < 5; ++n) {
        const unsigned char* const stage = side.stage(n, 3000);
        EXPECT_GE(stage, bench.ring.data());
        EXPECT_LE(stage + 3000, bench.ring.data() + bench.ring.size());
        side.release(n, 1);
      }
      side.advance(5, 3000);
    }
  });
  EXPECT_FALSE(bench.machine.team_error);
  EXPECT_EQ(bench.empty[0].phases(), 0u);
}

TEST(Steps, TheNextOneRunsWhenTheOneBeforeHasEnded) {
  Bench<HostPlatform> bench(kStageUnit);
  HostCounter done, stop;
  bench.program.steps_done = &done;
  bench.program.stop_requested = &stop;
  bench.program.first_epoch = 5;
  bench.program.last_epoch = 9;
  bench.step.value = 5 * 2;
  auto c = context(bench, Role::Compute);
  EXPECT_EQ(wait_for_step(c, 5), Verdict::Ready);
  end_step(c, 5, false);
  EXPECT_EQ(done.value, 5u);
  EXPECT_EQ(wait_for_step(c, 6), Verdict::Ready);
  stop.value = 1;
  end_step(c, 6, false);
  EXPECT_EQ(done.value, 6u);
  EXPECT_EQ(wait_for_step(c, 6), Verdict::Ready) << "the last step has run";
  EXPECT_EQ(wait_for_step(c, 7), Verdict::Stop);
}

TEST(Steps, EndAtTheLastAndWhereTheTaskSaysSo) {
  for (const auto& [epoch, finished, stops] : {std::tuple{8u, false, false}, {8u, true, true}, {9u, false, true}}) {
    Bench<HostPlatform> bench(kStageUnit);
    HostCounter done, stop;
    bench.program.steps_done = &done;
    bench.program.stop_requested = &stop;
    bench.program.last_epoch = 9;
    auto c = context(bench, Role::Compute);
    end_step(c, epoch, finished);
    EXPECT_EQ((bench.step.value & 1u) != 0, stops);
  }
}

}  // namespace
}  // namespace strata::megakernel
