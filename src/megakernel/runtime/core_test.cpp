// The parts of the core one by one, on the host's platform.
#include <gtest/gtest.h>

#include "megakernel/runtime/core/scheduler.h"
#include "megakernel/runtime/core/worker.h"
#include "megakernel/runtime/host_platform.h"

namespace strata::megakernel {
namespace {

/// A worker's shared memory and the words of a launch.
template <class Platform>
struct Bench {
  explicit Bench(int slots, unsigned window = 1u << 20, int pages = 2)
      : full(slots), empty(slots), page_empty(pages), listed(2), gathered(2), unlisted(2), list(2), in_flight(slots) {
    program.workers = 1;
    program.slots = slots;
    program.slot_bytes = 16;
    program.window_bytes = window;
    program.pages = pages;
    program.page_bytes = 16;
    program.listed = 2;
    program.events = events.data();
    program.triggers = triggers.data();
    program.step = &step;
    program.abort = &abort;
    program.reports = reports.data();
    program.limit = 50'000'000;
    slot_memory.resize(slots * 16);
    page_memory.resize(pages * 16);
    memory = {full.data(), empty.data(), page_empty.data(), listed.data(),    gathered.data(),    unlisted.data(),
              list.data(), &loaded,      &completed,        in_flight.data(), slot_memory.data(), page_memory.data(),
              nullptr};
    start_memory(platform, program, memory, 1);
  }
  HostMachine machine;
  Platform platform{machine, 1};
  std::vector<HostBarrier> full, empty, page_empty, listed, gathered, unlisted;
  std::vector<Descriptor> list;
  std::vector<unsigned> in_flight;
  std::vector<unsigned char> slot_memory, page_memory;
  HostCounter loaded, completed, step, abort;
  std::vector<HostCounter> events = std::vector<HostCounter>(4);
  std::vector<int> triggers{3, 1, 2, 5};
  std::vector<HostCounter> reports = std::vector<HostCounter>(kWorkerRoles * kReportWords);
  Program<Platform> program{};
  WorkerMemory<Platform> memory{};
};

Context<HostPlatform> context(Bench<HostPlatform>& bench, Role role) {
  return {bench.platform, bench.program, role, 0};
}

TEST(Barrier, APhaseEndsWhenArrivalsAndBytesHaveCome) {
  HostBarrier barrier;
  barrier.start(2);
  barrier.arrive(32);
  barrier.complete(32);
  EXPECT_EQ(barrier.phases(), 0u) << "one arrival is missing";
  barrier.arrive(16);
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
  Bench<HostPlatform> bench(2);
  auto c = context(bench, Role::Gather);
  const int waits[] = {0, 2};
  Waited waited{};
  // 3 · 2³⁰ wraps, as 2 · 2³⁰ does not.
  for (const unsigned epoch : {1u, 2u, 1u << 30}) {
    bench.events[0].value = 3 * epoch;
    bench.events[2].value = 2 * epoch - 1;
    EXPECT_FALSE(active(c, waits, 2, epoch, waited));
    EXPECT_EQ(waited.object, 2);
    EXPECT_EQ(waited.have + 1, waited.want);
    bench.platform.add_release(bench.events[2], 1);
    EXPECT_TRUE(active(c, waits, 2, epoch, waited));
    EXPECT_FALSE(active(c, waits, 2, epoch + 1, waited));
  }
}

TEST(Counters, AWaitThatLastsTooLongReportsWhatItWaitedFor) {
  Bench<HostPlatform> bench(2);
  auto c = context(bench, Role::Gather);
  c.task = 17;
  c.epoch = 4;
  bench.events[3].value = 19;
  const int waits[] = {3};
  EXPECT_EQ(wait_for_events(c, waits, 1, 4), Verdict::Abort);
  EXPECT_EQ(bench.abort.value, static_cast<unsigned>(c.report()) + 1);
  const std::vector<unsigned> want{static_cast<unsigned>(Activity::Event), 17, 4, 3, 19, 20};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(bench.reports[c.report() * kReportWords + i].value, want[i]);
}

TEST(Tagged, DataComesInWordsOfItsEpoch) {
  Random random(3);
  Bench<HostPlatform> bench(2);
  auto c = context(bench, Role::Gather);
  for (int bytes = 1; bytes <= 40; ++bytes) {
    std::vector<unsigned char> data(bytes);
    for (auto& byte : data) byte = static_cast<unsigned char>(random());
    std::vector<HostTaggedWord> words((bytes + 11) / 12 + 1);
    const auto last = words.size() - 2;
    write_tagged(bench.platform, words.data(), data.data(), bytes, 7);
    EXPECT_EQ(words.back().value.load().tag, 0u) << "a word beyond the tile was written";
    std::vector<unsigned char> read(bytes + 1, 0xee);
    ASSERT_EQ(read_tagged(c, words.data(), read.data(), bytes, 7), Verdict::Ready);
    EXPECT_EQ(read.back(), 0xee) << "a byte beyond the data was written";
    read.pop_back();
    EXPECT_EQ(read, data);
    // One word of the epoch before is enough to wait for.
    Tagged old = words[last].value.load();
    old.tag = 6;
    words[last].value = old;
    std::thread late([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      write_tagged(bench.platform, words.data(), data.data(), bytes, 7);
    });
    ASSERT_EQ(read_tagged(c, words.data(), read.data(), bytes, 7), Verdict::Ready);
    late.join();
    EXPECT_EQ(read, data);
  }
}

TEST(Tagged, AMissingWordIsReported) {
  Bench<HostPlatform> bench(2);
  auto c = context(bench, Role::Gather);
  std::vector<HostTaggedWord> words(3);
  std::vector<unsigned char> data(36);
  write_tagged(bench.platform, words.data(), data.data(), 24, 2);
  EXPECT_EQ(read_tagged(c, words.data(), data.data(), 36, 2), Verdict::Abort);
  const auto* report = &bench.reports[c.report() * kReportWords];
  EXPECT_EQ(report[0].value, static_cast<unsigned>(Activity::Tags));
  EXPECT_EQ(report[3].value, 2u);
  EXPECT_EQ(report[4].value, 0u);
  EXPECT_EQ(report[5].value, 2u);
}

/// Slots come out in the order in which they were filled, whatever the ring's size and however late copies are.
TEST(Ring, IsAFifo) {
  for (const int slots : {1, 2, 3, 7}) {
    for (const bool late : {false, true}) {
      Bench<HostPlatform> bench(slots, 40);
      bench.program.limit = 60'000'000'000;
      LateStores stores(slots);
      if (late) bench.machine.late = &stores;
      constexpr unsigned kLoads = 200;
      std::vector<std::array<unsigned, 4>> constants(kLoads);
      for (unsigned i = 0; i < kLoads; ++i) constants[i] = {i, i * i, ~i, 7 * i};
      std::thread loader([&] {
        HostPlatform platform(bench.machine, 2);
        Context<HostPlatform> c{platform, bench.program, Role::Load, 0};
        LoadSide<HostPlatform> side(c, bench.memory);
        for (const auto& constant : constants) side.push(constant.data(), 16);
        EXPECT_EQ(side.filled(), kLoads);
        side.drain();
      });
      auto c = context(bench, Role::Compute);
      ComputeSide<HostPlatform> side(c, bench.memory);
      for (unsigned i = 0; i < kLoads; ++i) {
        std::array<unsigned, 4> got{};
        std::memcpy(got.data(), side.front(), 16);
        EXPECT_EQ(got, constants[i]);
        side.pop();
      }
      loader.join();
      EXPECT_EQ(side.used(), kLoads);
      EXPECT_FALSE(bench.machine.phase_error);
    }
  }
}

/// A copy starts only when the window has room, though the ring has: a barrier that never sees its bytes holds it up.
TEST(Ring, BytesInFlightStayInTheWindow) {
  struct Held : HostPlatform {
    using HostPlatform::HostPlatform;
    unsigned flying = 0;
    void copy(void*, const void*, unsigned bytes, Barrier&) { flying += bytes; }
  };
  for (const unsigned window : {16u, 40u, 64u, 1000u}) {
    Bench<Held> bench(8, window);
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
  Bench<HostPlatform> bench(3, 4);
  auto c = context(bench, Role::Load);
  LoadSide<HostPlatform> side(c, bench.memory);
  const unsigned char constant[16] = {};
  for (int i = 0; i < 3; ++i) side.push(constant, 16);
  EXPECT_EQ(c.left, Verdict::Ready);
  EXPECT_EQ(side.filled(), 3u);
}

/// A slot is not filled again before compute is done with it.
TEST(Ring, AFullRingHoldsTheLoaderUp) {
  Bench<HostPlatform> bench(2);
  auto c = context(bench, Role::Load);
  LoadSide<HostPlatform> side(c, bench.memory);
  const unsigned char first[16] = {1}, second[16] = {2}, third[16] = {3};
  side.push(first, 16);
  side.push(second, 16);
  side.push(third, 16);
  EXPECT_EQ(c.left, Verdict::Abort);
  EXPECT_EQ(bench.slot_memory[0], 1);
  const auto* report = &bench.reports[c.report() * kReportWords];
  EXPECT_EQ(report[0].value, static_cast<unsigned>(Activity::SlotEmpty));
  EXPECT_EQ(report[3].value, 0u);
}

TEST(Pages, AreTakenAndGivenBackInOrder) {
  Bench<HostPlatform> bench(1, 16, 3);
  auto g = context(bench, Role::Gather);
  auto c = context(bench, Role::Compute);
  GatherSide<HostPlatform> gather(g, bench.memory);
  ComputeSide<HostPlatform> compute(c, bench.memory);
  gather.take_pages(2);
  EXPECT_EQ(gather.page(0), bench.page_memory.data());
  EXPECT_EQ(gather.page(1), bench.page_memory.data() + 16);
  compute.begin_pages();
  compute.give_page();
  gather.take_pages(2);  // the third, and around to the first
  EXPECT_EQ(gather.page(0), bench.page_memory.data() + 32);
  EXPECT_EQ(gather.page(1), bench.page_memory.data());
  EXPECT_EQ(g.left, Verdict::Ready);
  EXPECT_EQ(compute.page(1), bench.page_memory.data() + 16) << "the task's second page stays its own";
  compute.give_pages(2);
  compute.begin_pages();
  EXPECT_EQ(compute.page(0), bench.page_memory.data() + 32);
  gather.take_pages(1);
  EXPECT_EQ(g.left, Verdict::Ready);
  gather.take_pages(1);
  EXPECT_EQ(g.left, Verdict::Abort) << "a page that was not given back was taken";
}

TEST(Steps, TheNextOneRunsWhenTheOneBeforeHasEnded) {
  Bench<HostPlatform> bench(1);
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
  EXPECT_EQ(wait_for_step(c, 7), Verdict::Stop);
}

TEST(Steps, EndAtTheLastAndWhereTheTaskSaysSo) {
  for (const auto& [epoch, finished, stops] : {std::tuple{8u, false, false}, {8u, true, true}, {9u, false, true}}) {
    Bench<HostPlatform> bench(1);
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
