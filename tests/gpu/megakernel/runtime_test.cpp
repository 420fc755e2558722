// The mega-kernel's runtime on a GPU: random plans, whose tasks see and leave what those of a serial run do, bit for
// bit; faults, stop and profiler. It needs a GPU from Hopper on, the driver and NVRTC; see tests/gpu/README.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>

#include "cases.h"

namespace strata {

std::string_view megakernel_test_text();  // the tests' block functions, which CMake embeds

namespace megakernel::testing {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// The GPU, and the code without and with profiler, for all tests.
class Gpu : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto opened = GpuDevice::open();
    ASSERT_TRUE(opened) << opened.error().to_string();
    device_ = std::move(*opened);
    for (const bool profile : {false, true}) {
      auto compiled = compile_cuda_code(megakernel_test_text(), default_target(), profile);
      ASSERT_TRUE(compiled) << compiled.error().to_string();
      code_[profile] = std::move(*compiled);
    }
    const auto count = device_->attribute(CudaDriver::kMultiprocessors, "multiprocessors");
    ASSERT_TRUE(count) << count.error().to_string();
    multiprocessors_ = *count;
    fmt::print("{}, {} multiprocessors; {} registers, with profiler {}\n", device_->name(), multiprocessors_,
               code_[0].use.registers, code_[1].use.registers);
  }
  static void TearDownTestSuite() { device_.reset(); }
  void SetUp() override { ASSERT_NE(device_, nullptr) << "there is no GPU"; }

  static void run_cases(Modes modes, uint64_t first, uint64_t count, const CaseSize& size) {
    for (uint64_t seed = first; seed < first + count; ++seed) {
      const Case test = random_case(seed, modes, size);
      const auto found = run_on_gpu(*device_, code_[seed % 2], test);
      ASSERT_TRUE(found) << "seed " << seed << ": " << found.error().to_string();
      ASSERT_EQ(difference(test, *found, run_serially(test)), "") << "seed " << seed;
    }
  }
  /// Of workers that take the whole GPU, but for blocks of schedulers.
  static CaseSize whole(int layers) {
    const int workers = std::min(128, multiprocessors_ - 4);
    return {.least_workers = workers,
            .most_workers = workers,
            .most_schedulers = 16,
            .most_layers = layers,
            .most_tasks = workers,
            .whole = true,
            .most_words = 16,
            .most_stage_bytes = 16384,
            .most_delay = 3000};
  }
  static std::unique_ptr<CudaKernel> make(const Case& test, const CaseMemory& memory, bool profile = false) {
    auto kernel = CudaKernel::make(*device_, test.plan, code_[profile], memory.options());
    EXPECT_TRUE(kernel) << kernel.error().to_string();
    return kernel ? std::move(*kernel) : nullptr;
  }
  static CaseMemory memory_of(const Case& test) {
    auto memory = CaseMemory::make(*device_, test);
    EXPECT_TRUE(memory) << memory.error().to_string();
    return std::move(*memory);
  }

  static inline std::unique_ptr<GpuDevice> device_;
  static inline CudaCode code_[2];
  static inline int multiprocessors_ = 0;
};

/// Two producers on workers 0 and 1, a consumer of both on worker 2, and on worker 0 the end of the step.
Case small(HandOff first = HandOff::Counter) {
  Case test;
  Plan& plan = test.plan;
  plan.name = "small";
  plan.workers = 3;
  plan.operators = {"produce", "consume", "end"};
  plan.functions = {{.name = "produce", .stages = 3, .stage_bytes = 512, .scratch_bytes = 2048},
                    {.name = "consume", .scratch_bytes = 2048},
                    {.name = "end", .scratch_bytes = 2048}};
  plan.events = {{2, 2, 3, first}, {1, 3, 4}};
  plan.tasks = {{0, 0, {0}, {}, 0}, {0, 0, {1}, {}, 0}, {1, 1, {}, {0}, 1}, {2, 2, {}, {1}, -1}};
  plan.queues = {{0, 3}, {1}, {2}};
  test.constants.resize(4096);
  for (size_t i = 0; i < test.constants.size(); ++i) test.constants[i] = static_cast<uint32_t>(i * i);
  test.tasks.resize(4);
  for (int t = 0; t < 2; ++t) {
    test.tasks[t].runs = {{0, 3, 512, 1, 0}};
    test.tasks[t].sources = {0, 512, 1024};
  }
  (first == HandOff::Tagged ? test.tasks[2].tagged : test.tasks[2].counted) = {0, 1};
  test.tasks[3].counted = {2};
  size_t bytes = 0;
  for (CaseTask& task : test.tasks) {
    task.words = 4;
    task.output = bytes;
    task.tagged_words = bytes + 16;
    task.rows = bytes + 48;
    task.seen = bytes + 48 + 2 * kRowWords * 4;
    task.count = task.seen + 8;
    bytes = task.count + 8;
  }
  test.state_bytes = bytes;
  test.options.tokens_per_step = 2;
  test.options.lengths = {0};
  test.options.limit = std::chrono::milliseconds(500);
  test.launches = {5};
  return test;
}

TEST_F(Gpu, RandomPlansAheadOfTime) { run_cases(Modes::AheadOfTime, 0, 150, {}); }
TEST_F(Gpu, RandomPlansJustInTime) { run_cases(Modes::JustInTime, 0, 150, {}); }
TEST_F(Gpu, RandomPlansMixed) { run_cases(Modes::Mixed, 0, 150, {}); }
TEST_F(Gpu, PlansOfTheWholeGpuAheadOfTime) { run_cases(Modes::AheadOfTime, 0, 12, whole(8)); }
TEST_F(Gpu, PlansOfTheWholeGpuMixed) { run_cases(Modes::Mixed, 0, 12, whole(8)); }

/// In one launch and in many.
TEST_F(Gpu, ThousandsOfSteps) {
  for (const Modes modes : {Modes::AheadOfTime, Modes::Mixed}) {
    Case test = random_case(7, modes, whole(4));
    test.launches = {2000};
    for (int launch = 0; launch < 100; ++launch) test.launches.push_back(5);
    test.finish = 0;
    test.most_delay = 0;
    double elapsed = 0;
    const auto found = run_on_gpu(*device_, code_[0], test, &elapsed);
    ASSERT_TRUE(found) << found.error().to_string();
    EXPECT_EQ(difference(test, *found, run_serially(test)), "");
    fmt::print("{} steps of {} tasks: {:.1f} us a step with launches\n", test.epochs(), test.plan.tasks.size(),
               elapsed / test.epochs() * 1e6);
  }
}

TEST_F(Gpu, TwoRunsAreBitEqual) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Case test = random_case(100 + seed, Modes::Mixed, seed % 2 == 0 ? CaseSize{} : whole(6));
    const auto first = run_on_gpu(*device_, code_[0], test);
    ASSERT_TRUE(first) << first.error().to_string();
    test.most_delay = 5000;
    const auto second = run_on_gpu(*device_, code_[1], test);
    ASSERT_TRUE(second) << second.error().to_string();
    EXPECT_EQ(first->state, second->state);
    EXPECT_EQ(first->tokens, second->tokens);
  }
}

TEST_F(Gpu, TheSmallPlanRuns) {
  for (const HandOff hand_off : {HandOff::Counter, HandOff::Tagged}) {
    Case test = small(hand_off);
    if (hand_off == HandOff::Tagged) {
      // What ends the step must come after the producers by counters: one is before it in its queue, the other is not.
      test.plan.queues = {{0, 1, 3}, {}, {2}};
    }
    const auto found = run_on_gpu(*device_, code_[0], test);
    ASSERT_TRUE(found) << found.error().to_string();
    EXPECT_EQ(difference(test, *found, run_serially(test)), "");
  }
}

TEST_F(Gpu, ALostSignalIsReportedWithinItsLimit) {
  Case test = small();
  test.options.lost_event = 0;
  const CaseMemory memory = memory_of(test);
  const auto kernel = make(test, memory);
  ASSERT_TRUE(kernel);
  const auto began = Clock::now();
  ASSERT_TRUE(kernel->launch(5));
  const auto done = kernel->wait();
  const double seconds = seconds_since(began);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::Environment);
  const std::string& text = done.error().message;
  EXPECT_THAT(text, HasSubstr("worker 2 compute, task 2 (consume), epoch 1: waits for event 0, counter 1 of 2"));
  EXPECT_THAT(text, HasSubstr("worker 0 compute, task 3 (end), epoch 1: waits for event 1, counter 0 of 1"));
  EXPECT_GE(seconds, 0.5);
  EXPECT_LT(seconds, 1.5) << text;
  fmt::print("a lost signal is reported after {:.3f} s, at a limit of 0.5\n{}\n", seconds, text);
  EXPECT_EQ(kernel->steps_done(), 0u);
  const auto again = kernel->launch(1);
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, HasSubstr("failed"));
}

/// The counter of any event, in plans of any size, ends the kernel with a report that names it.
TEST_F(Gpu, ALostSignalEndsAnyPlan) {
  int lost = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Case test = random_case(seed, static_cast<Modes>(seed % 3), seed % 4 == 3 ? whole(4) : CaseSize{});
    std::vector<int> counted;
    for (size_t e = 0; e < test.plan.events.size(); ++e) {
      const bool waited = std::any_of(test.plan.tasks.begin(), test.plan.tasks.end(), [&](const Task& task) {
        return std::count(task.waits.begin(), task.waits.end(), static_cast<int>(e)) > 0;
      });
      if (test.plan.events[e].hand_off == HandOff::Counter && waited) counted.push_back(static_cast<int>(e));
    }
    if (counted.empty()) continue;
    const int event = counted[seed % counted.size()];
    test.options.lost_event = event;
    test.options.limit = std::chrono::milliseconds(300);
    test.options.start_limit = std::chrono::milliseconds(100);
    const auto began = Clock::now();
    const auto found = run_on_gpu(*device_, code_[0], test);
    ASSERT_FALSE(found) << "seed " << seed;
    EXPECT_THAT(found.error().message, HasSubstr(fmt::format("waits for event {}, counter", event))) << "seed " << seed;
    EXPECT_LT(seconds_since(began), 3) << "seed " << seed;
    ++lost;
  }
  EXPECT_GT(lost, 6);
}

TEST_F(Gpu, AMissingBlockEndsTheKernelBeforeItBegins) {
  Case test = small();
  test.options.absent_blocks = 1;
  test.options.start_limit = std::chrono::milliseconds(200);
  const CaseMemory memory = memory_of(test);
  const auto kernel = make(test, memory);
  ASSERT_TRUE(kernel);
  ASSERT_TRUE(kernel->launch(5));
  const auto done = kernel->wait();
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("2 of 3 workers and schedulers have started"));
  EXPECT_THAT(done.error().message, HasSubstr("worker 2 control: has not started"));
  const auto state = memory.state();
  ASSERT_TRUE(state) << state.error().to_string();
  EXPECT_EQ(*state, std::vector<unsigned char>(test.state_bytes)) << "nothing was written";
}

TEST_F(Gpu, AWriterOfTagsThatIsMissingIsReported) {
  Case test = small(HandOff::Tagged);
  test.plan.queues = {{0, 1, 3}, {}, {2}};
  test.tasks[1].fault = TestFault::NoTaggedWords;
  test.fault_epoch = 3;
  const auto found = run_on_gpu(*device_, code_[0], test);
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("worker 2 compute, task 2 (consume), epoch 3: waits for tagged word"));
  EXPECT_THAT(found.error().message, HasSubstr("epoch 2 of 3"));
}

TEST_F(Gpu, OtherStagesThanWereFilledAreReported) {
  Case test = small();
  test.tasks[0].fault = TestFault::FewerStages;
  test.fault_epoch = 2;
  test.launches = {50};
  const auto found = run_on_gpu(*device_, code_[0], test);
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("task 0 (produce), epoch 2"));
  EXPECT_THAT(found.error().message, HasSubstr("compute used"));
}

/// All others leave, and the report, which can be read all the time, names the one that does not.
TEST_F(Gpu, ATaskThatNeverEndsDoesNotKeepTheOthers) {
  auto pinned = PinnedMemory::allocate(*device_, 64);
  ASSERT_TRUE(pinned) << pinned.error().to_string();
  Case test = small();
  test.tasks[1].fault = TestFault::NeverEnds;
  test.fault_epoch = 3;
  test.fault_word = reinterpret_cast<unsigned long long>(pinned->data());
  const CaseMemory memory = memory_of(test);
  const auto kernel = make(test, memory);
  ASSERT_TRUE(kernel);
  ASSERT_TRUE(kernel->launch(5));
  const auto done = kernel->wait();
  ASSERT_FALSE(done);
  EXPECT_TRUE(kernel->running());
  EXPECT_THAT(done.error().remedy, HasSubstr("does not return"));
  EXPECT_THAT(done.error().message, HasSubstr("worker 1 compute, task 1 (produce), epoch 3: runs its block function"));
  EXPECT_THAT(done.error().message,
              HasSubstr("worker 2 compute, task 2 (consume), epoch 3: waits for event 0, counter 5 of 6"));
  const auto report = kernel->report();
  EXPECT_TRUE(report) << report.error().to_string();
  EXPECT_EQ(report ? report->roles.size() : 0, 9u);
  *reinterpret_cast<volatile uint32_t*>(pinned->data()) = 1;
  const auto began = Clock::now();
  while (kernel->running() && seconds_since(began) < 10) std::this_thread::yield();
  EXPECT_FALSE(kernel->running());
}

TEST_F(Gpu, MoreWorkersThanMultiprocessorsAreRefused) {
  Case test = small();
  test.plan.workers = multiprocessors_ + 1;
  test.plan.queues.resize(static_cast<size_t>(test.plan.workers));
  const auto kernel = CudaKernel::make(*device_, test.plan, code_[0], test.options);
  ASSERT_FALSE(kernel);
  EXPECT_EQ(kernel.error().code, ErrorCode::InvalidInput);
  EXPECT_THAT(kernel.error().to_string(), HasSubstr(fmt::format("{} workers", multiprocessors_ + 1)));
  EXPECT_THAT(kernel.error().to_string(), HasSubstr(fmt::format("at most {} workers", multiprocessors_)));
  // With as many as there are it runs.
  test.plan.workers = multiprocessors_;
  test.plan.queues.resize(static_cast<size_t>(test.plan.workers));
  const auto found = run_on_gpu(*device_, code_[0], test);
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_EQ(difference(test, *found, run_serially(test)), "");
}

TEST_F(Gpu, ARingThatABlockHasNoRoomForIsRefused) {
  Case test = small();
  test.options.shape.ring_bytes = 256 * kStageUnit;
  const auto kernel = CudaKernel::make(*device_, test.plan, code_[0], test.options);
  ASSERT_FALSE(kernel);
  EXPECT_THAT(kernel.error().message, HasSubstr("bytes of shared memory"));
}

TEST_F(Gpu, StopsBetweenSteps) {
  Case test = small();
  test.options.limit = std::chrono::seconds(5);
  const CaseMemory memory = memory_of(test);
  const auto kernel = make(test, memory);
  ASSERT_TRUE(kernel);
  uint32_t before = 0;
  for (int launch = 0; launch < 5; ++launch) {
    ASSERT_TRUE(kernel->launch(1'000'000));
    // Tokens are read while the kernel runs.
    const auto began = Clock::now();
    for (uint32_t step = 0; step < 5; ++step) {
      while (kernel->steps_done() <= step && seconds_since(began) < 10) std::this_thread::yield();
      ASSERT_GT(kernel->steps_done(), step);
      EXPECT_EQ(kernel->tokens(step)[1], static_cast<int>(before + step + 1));
    }
    kernel->request_stop();
    const auto done = kernel->wait();
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_GE(*done, 5u);
    EXPECT_LT(*done, 1'000'000u);
    before += *done;
  }
  // The step that was begun has ended, and no other one has begun.
  test.launches = {before};
  const auto state = memory.state();
  ASSERT_TRUE(state) << state.error().to_string();
  Outcome expected = run_serially(test);
  EXPECT_EQ(difference(test, {*state, expected.tokens}, expected), "") << before << " steps";
}

TEST_F(Gpu, TheProfilerRecordsEachTask) {
  Case test = random_case(3, Modes::Mixed, {});
  test.launches = {20};
  test.finish = 0;
  const CaseMemory memory = memory_of(test);
  const auto kernel = make(test, memory, true);
  ASSERT_TRUE(kernel);
  ASSERT_TRUE(kernel->launch(20));
  ASSERT_TRUE(kernel->wait());
  const auto trace = kernel->trace();
  ASSERT_TRUE(trace) << trace.error().to_string();
  std::map<std::pair<int, unsigned>, int> computed;
  std::map<std::pair<int, unsigned>, ProfileRecord> records;
  for (const TracedTask& task : *trace) {
    EXPECT_LE(task.record.begin, task.record.end);
    if (task.role != Role::Compute) continue;
    ++computed[{task.record.task, task.record.epoch}];
    records[{task.record.task, task.record.epoch}] = task.record;
  }
  EXPECT_EQ(computed.size(), test.plan.tasks.size() * 20);
  for (const auto& [task, count] : computed) EXPECT_EQ(count, 1);
  // A task ends after those that it waits for have begun, as far as the clocks of the multiprocessors agree.
  for (const auto& [key, record] : records) {
    for (size_t p = 0; p < test.plan.tasks.size(); ++p) {
      const auto& waits = test.plan.tasks[static_cast<size_t>(key.first)].waits;
      if (std::count(waits.begin(), waits.end(), test.plan.tasks[p].signal) == 0) continue;
      EXPECT_GE(record.end + 2000, records.at({static_cast<int>(p), key.second}).begin);
    }
  }
  EXPECT_THAT(chrome_trace(test.plan, *trace), HasSubstr("\"ph\""));
}

}  // namespace
}  // namespace megakernel::testing
}  // namespace strata
