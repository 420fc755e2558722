// Faults, stop and profiler: what the kernel does when something is missing, and what it says of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "megakernel/runtime/test_random_plan.h"

namespace strata::megakernel::testing {
namespace {

using ::testing::HasSubstr;

/// Two producers on workers 0 and 1, a consumer of both on worker 2, and on worker 0 the end of the step.
struct Small {
  Plan plan;
  std::vector<HostFunction> functions{3};
  HostOptions options;

  Small() {
    plan.name = "small";
    plan.workers = 3;
    plan.operators = {"produce", "consume", "end"};
    plan.functions = {{"produce"}, {"consume"}, {"end"}};
    plan.events = {{2, 2, 3}, {1, 3, 4}};
    plan.tasks = {{0, 0, {0}, {}, 0}, {0, 0, {1}, {}, 0}, {1, 1, {}, {0}, 1}, {2, 2, {}, {1}, -1}};
    plan.queues = {{0, 3}, {1}, {2}};
    options.limit = std::chrono::seconds(1);
    options.start_limit = std::chrono::milliseconds(900);
  }
  std::unique_ptr<HostKernel> make() {
    auto kernel = HostKernel::make(plan, functions, options);
    EXPECT_TRUE(kernel) << kernel.error().to_string();
    return std::move(*kernel);
  }
};

/// A limit that only a hang reaches.
template <class Condition>
void wait_until(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  ASSERT_TRUE(condition());
}

TEST(Faults, ALostSignalIsReportedByWhoWaitsForIt) {
  Small small;
  small.options.lost_event = 0;
  small.options.lost_signal = 4;  // the second one of epoch 2
  const auto kernel = small.make();
  ASSERT_TRUE(kernel->launch(5));
  const auto done = kernel->wait();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::Environment);
  EXPECT_EQ(kernel->steps_done(), 1u);
  // Whoever saw the limit first is the cause; the chain is in the report, whichever that is.
  const std::string& text = done.error().message;
  EXPECT_THAT(text, HasSubstr("worker 2 compute, task 2 (consume), epoch 2: waits for event 0, counter 3 of 4"));
  EXPECT_THAT(text, HasSubstr("worker 0 compute, task 3 (end), epoch 2: waits for event 1, counter 1 of 2"));
  EXPECT_THAT(text, HasSubstr("worker 1 compute, task 1 (produce), epoch 3: waits for step 3, now 2"));
  EXPECT_EQ(kernel->running(), 0);
  const auto again = kernel->launch(1);
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, HasSubstr("failed"));
}

TEST(Faults, AMissingWorkerEndsTheKernelBeforeItBegins) {
  for (const int absent : {0, 2}) {
    Small small;
    small.options.start_limit = std::chrono::seconds(1);
    small.options.limit = std::chrono::seconds(60);  // the start is what ends first
    small.options.absent_worker = absent;
    std::atomic<int> computed{0};
    for (HostFunction& function : small.functions)
      function.compute = [&](const Descriptor&, HostCompute&) { ++computed; };
    const auto kernel = small.make();
    ASSERT_TRUE(kernel->launch(5));
    const auto done = kernel->wait();
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message, HasSubstr("2 of 3 workers and schedulers have started"));
    EXPECT_THAT(done.error().message, HasSubstr(fmt::format("worker {} control: has not started", absent)));
    EXPECT_EQ(computed, 0);
    EXPECT_EQ(kernel->report().cause.activity, Activity::Start);
  }
}

/// All others leave, and the report names the one that does not.
TEST(Faults, ATaskThatNeverEndsDoesNotKeepTheOthers) {
  Small small;
  std::atomic<bool> release{false};
  small.functions[0].compute = [&](const Descriptor& task, HostCompute& side) {
    if (task.record.coordinates[0] == 1 && side.epoch() == 3)
      while (!release) std::this_thread::yield();
  };
  const auto kernel = small.make();
  ASSERT_TRUE(kernel->launch(5));
  wait_until([&] { return kernel->running() == small.options.shape.warps * small.options.lanes; });
  EXPECT_TRUE(kernel->aborted());
  const std::string text = describe(kernel->report(), small.plan);
  EXPECT_THAT(text, HasSubstr("worker 1 compute, task 1 (produce), epoch 3: runs its block function"));
  EXPECT_THAT(text, HasSubstr("worker 2 compute, task 2 (consume), epoch 3: waits for event 0, counter 5 of 6"));
  release = true;
  EXPECT_FALSE(kernel->wait());
}

TEST(Faults, AWriterOfTagsThatIsMissingIsReported) {
  Small small;
  HostTaggedWord word;
  small.functions[1].compute = [&](const Descriptor&, HostCompute& side) {
    side.read(&word, 1, [](int, const Tagged&) {});
  };
  const auto kernel = small.make();
  ASSERT_TRUE(kernel->launch(1));
  const auto done = kernel->wait();
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message,
              HasSubstr("worker 2 compute, task 2 (consume), epoch 1: waits for tagged word 0, epoch 0 of 1"));
}

/// Found when the entry of the list is taken again, and at the end of the launch where it is not.
TEST(Faults, OtherStagesThanWereFilledAreReported) {
  alignas(16) static const unsigned char constant[2048] = {};
  for (const uint32_t steps : {1u, 20u}) {
    for (const int filled : {0, 1, 2, 30}) {
      Small small;
      small.functions[0].load = [&](const Descriptor& task, HostLoad& side) {
        if (task.record.coordinates[0] != 1) return;
        for (int n = 0; n < filled; ++n) side.push(constant, 2048);
      };
      small.functions[0].compute = [](const Descriptor& task, HostCompute& side) {
        if (task.record.coordinates[0] != 1) return;
        side.stage(0, 2048);
        side.release(0, 2);
        side.advance(1, 2048);
      };
      const auto kernel = small.make();
      ASSERT_TRUE(kernel->launch(steps));
      const auto done = kernel->wait();
      if (filled == 1) {
        EXPECT_TRUE(done) << done.error().to_string();
        continue;
      }
      ASSERT_FALSE(done) << steps << " " << filled;
      // Where one of them waits for what never comes, that is the report.
      std::string text = fmt::format("task 1 (produce), epoch 1: compute used 1 stages, and load filled {}", filled);
      if (filled == 0) text = "worker 1 compute, task 1 (produce), epoch 1: waits for the copy to stage 0";
      if (filled == 30 && steps > 1) text = "waits for compute to be done with stage 4";
      EXPECT_THAT(done.error().message, HasSubstr(text));
    }
  }
}

TEST(Faults, StagesOfAnotherSizeAreReported) {
  Small small;
  alignas(16) static const unsigned char constant[2048] = {};
  small.functions[0].load = [&](const Descriptor&, HostLoad& side) { side.push(constant, 2048); };
  small.functions[0].compute = [](const Descriptor&, HostCompute& side) {
    side.stage(0, 1024);
    side.release(0, 2);
    side.advance(1, 1024);
  };
  const auto kernel = small.make();
  ASSERT_TRUE(kernel->launch(1));
  const auto done = kernel->wait();
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("it ends at 1024 of the ring, not 2048"));
}

/// A block function in which not all threads of the team meet.
TEST(Faults, AMissingMeetIsFound) {
  Small small;
  small.options.meet_limit = std::chrono::milliseconds(200);
  small.functions[1].compute = [](const Descriptor&, HostCompute& side) {
    if (side.platform().lane() == 0) side.platform().meet_warp();
  };
  const auto kernel = small.make();
  ASSERT_TRUE(kernel->launch(3));
  const auto done = kernel->wait();
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("threads of a team"));
}

/// A worker that has nothing to do for many steps is not taken for hung.
TEST(Faults, AWorkerWithoutTasksIsNotHung) {
  Small small;
  small.plan.workers = 4;
  small.plan.queues.push_back({});
  small.options.limit = std::chrono::milliseconds(2000);
  small.options.start_limit = std::chrono::milliseconds(1900);
  small.functions[0].compute = [](const Descriptor&, HostCompute& side) {
    if (side.platform().leads()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  const auto kernel = small.make();
  ASSERT_TRUE(kernel->launch(50));
  const auto done = kernel->wait();
  ASSERT_TRUE(done) << done.error().to_string();
  EXPECT_EQ(*done, 50u);
}

/// All threads that store call it, and nobody else.
TEST(Copies, AReleaseComesAfterWhatIsStoredForThem) {
  Small small;
  small.plan.functions[1].stores_for_copies = true;
  const auto kernel = small.make();
  ASSERT_TRUE(kernel->launch(7));
  ASSERT_TRUE(kernel->wait());
  EXPECT_EQ(kernel->releases_for_copies(), 7 * small.options.shape.warps * small.options.lanes);
}

/// Faults in random plans: the kernel ends with a report that names the event.
TEST(Faults, ALostSignalEndsAnyPlan) {
  Random random(11);
  int lost = 0;
  for (uint64_t seed = 0; seed < 9; ++seed) {
    TestCase test = random_case(seed, static_cast<Modes>(seed % 3));
    std::vector<int> counted;
    for (size_t e = 0; e < test.plan.events.size(); ++e) {
      const bool waited = std::any_of(test.plan.tasks.begin(), test.plan.tasks.end(), [&](const Task& task) {
        return std::count(task.waits.begin(), task.waits.end(), static_cast<int>(e)) > 0;
      });
      if (test.plan.events[e].hand_off == HandOff::Counter && waited) counted.push_back(static_cast<int>(e));
    }
    if (counted.empty()) continue;
    const int event = counted[random.below(counted.size())];
    test.options.lost_event = event;
    test.options.lost_signal = 1 + static_cast<int>(random.below(test.plan.events[event].triggers));
    test.options.limit = std::chrono::milliseconds(1000);
    test.options.start_limit = std::chrono::milliseconds(990);
    test.options.delays = false;
    test.finish = 0;
    TestMemory memory(test);
    auto kernel = HostKernel::make(test.plan, test_functions(test, memory), test.options);
    ASSERT_TRUE(kernel) << kernel.error().to_string();
    ASSERT_TRUE((*kernel)->launch(test.launches[0]));
    const auto done = (*kernel)->wait();
    ASSERT_FALSE(done) << "seed " << seed;
    EXPECT_THAT(done.error().message, HasSubstr(fmt::format("waits for event {}, counter", event))) << "seed " << seed;
    ++lost;
  }
  EXPECT_GT(lost, 4);
}

TEST(Stop, EndsBetweenTokens) {
  Small small;
  small.options.limit = std::chrono::seconds(60);
  std::array<std::atomic<int>, 4> runs{};
  std::atomic<uint32_t> epoch{0};
  for (HostFunction& function : small.functions) {
    function.compute = [&](const Descriptor& task, HostCompute& side) {
      if (!side.platform().leads()) return;
      ++runs[task.record.task];
      if (task.record.task != 3) return;
      side.put_token(0, static_cast<int>(side.epoch()) * 10);
      epoch = side.epoch();
    };
  }
  const auto kernel = small.make();
  uint32_t before = 0;
  for (int launch = 0; launch < 3; ++launch) {
    ASSERT_TRUE(kernel->launch(1'000'000));
    // Tokens are read while the kernel runs.
    for (uint32_t step = 0; step < 5; ++step) {
      wait_until([&] { return kernel->steps_done() > step; });
      EXPECT_EQ(kernel->tokens(step)[0], static_cast<int>(before + step + 1) * 10);
    }
    kernel->request_stop();
    const auto done = kernel->wait();
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_GE(*done, 5u);
    EXPECT_LT(*done, 1'000'000u);
    before += *done;
    EXPECT_EQ(epoch, before) << "the step that was begun has ended, and no other one has begun";
    for (const auto& count : runs) EXPECT_EQ(count, static_cast<int>(before));
  }
}

TEST(Stop, ALaunchHasSteps) {
  Small small;
  const auto kernel = small.make();
  EXPECT_FALSE(kernel->launch(0));
  EXPECT_FALSE(kernel->launch(1u << 30));
  EXPECT_FALSE(kernel->wait());
  ASSERT_TRUE(kernel->launch(1));
  const auto second = kernel->launch(1);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("running"));
  EXPECT_TRUE(kernel->wait());
}

TEST(Profiler, TheTraceHasEachTaskOfEachEpochOnceInEachRole) {
  for (const Modes modes : {Modes::AheadOfTime, Modes::JustInTime, Modes::Mixed}) {
    TestCase test = random_case(5, modes);
    test.options.profile = true;
    test.launches = {3};
    test.finish = 0;
    TestMemory memory(test);
    auto kernel = HostKernel::make(test.plan, test_functions(test, memory), test.options);
    ASSERT_TRUE(kernel) << kernel.error().to_string();
    ASSERT_TRUE((*kernel)->launch(3));
    const auto done = (*kernel)->wait();
    ASSERT_TRUE(done) << done.error().to_string();
    const auto tasks = (*kernel)->trace();
    ASSERT_TRUE(tasks);
    const auto json = nlohmann::json::parse(chrome_trace(test.plan, *tasks));
    std::map<std::tuple<int, int, int>, int> seen;  // role, task, epoch
    std::map<std::pair<int, int>, double> last;     // worker, role: end of its last task
    for (const auto& event : json.at("traceEvents")) {
      if (event.at("ph") != "X") continue;
      const int task = event.at("args").at("task");
      ++seen[{event.at("tid"), task, event.at("args").at("epoch")}];
      double& end = last[{event.at("pid"), event.at("tid")}];
      EXPECT_GE(event.at("ts").get<double>() + 1e-3, end) << "tasks of a role overlap";
      end = event.at("ts").get<double>() + event.at("dur").get<double>();
      const int op = test.plan.tasks[task].op;
      EXPECT_EQ(event.at("name"), op < 0 ? "empty" : test.plan.operators[op]);
      const int function = test.plan.tasks[task].function;
      const bool loads = event.at("cat") == "load" && function >= 0 && test.plan.functions[function].stages > 0;
      EXPECT_EQ(event.at("args").value("bytes", int64_t{0}),
                loads ? test.plan.functions[function].stages * test.plan.functions[function].stage_bytes : 0);
    }
    EXPECT_EQ(seen.size(), test.plan.tasks.size() * 2 * 3);  // roles, epochs
    for (const auto& [key, count] : seen) EXPECT_EQ(count, 1);
  }
}

TEST(Profiler, KeepsTheLastTasks) {
  constexpr uint32_t kCapacity = 3, kSteps = 4;
  Small small;
  small.options.profile = true;
  small.options.profile_capacity = kCapacity;
  const auto kernel = small.make();
  ASSERT_TRUE(kernel->launch(kSteps));
  ASSERT_TRUE(kernel->wait());
  const auto tasks = kernel->trace();
  ASSERT_TRUE(tasks) << tasks.error().to_string();
  std::map<std::pair<int, Role>, std::vector<ProfileRecord>> kept;
  for (const TracedTask& task : *tasks) kept[{task.worker, task.role}].push_back(task.record);
  ASSERT_FALSE(kept.empty());
  unsigned last = 0;
  for (const auto& [worker, records] : kept) {
    EXPECT_LE(records.size(), kCapacity);
    EXPECT_TRUE(std::ranges::is_sorted(records, {}, &ProfileRecord::epoch));
    EXPECT_TRUE(std::ranges::is_sorted(records, {}, &ProfileRecord::begin));
    last = std::max(last, records.back().epoch);
  }
  small.options.profile_capacity = 4096;
  const auto whole = small.make();
  ASSERT_TRUE(whole->launch(kSteps));
  ASSERT_TRUE(whole->wait());
  const auto all = whole->trace();
  ASSERT_TRUE(all);
  EXPECT_LT(tasks->size(), all->size());
  const auto epoch = [](const TracedTask& task) { return task.record.epoch; };
  EXPECT_EQ(last, std::ranges::max(*all, {}, epoch).record.epoch);
}

}  // namespace
}  // namespace strata::megakernel::testing
