// Plans that cannot run are refused, with the place.
#include "megakernel/runtime/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::megakernel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr LaunchMode kJit = LaunchMode::JustInTime;

/// 0 → 1 → 2 on two workers.
Plan chain() {
  Plan plan;
  plan.name = "chain";
  plan.workers = 2;
  plan.functions = {{"f", 1, 1024, 16}};
  plan.operators = {"f"};
  plan.events = {{1, 1, 2}, {1, 2, 3}};
  plan.tasks = {{0, 0, {}, {}, 0}, {0, 0, {}, {0}, 1}, {0, 0, {}, {1}, -1}};
  plan.queues = {{0, 2}, {1}};
  return plan;
}

std::string refusal(const Plan& plan, const WorkerShape& shape = {}) {
  const auto image = make_image(plan, shape);
  return image ? "accepted" : image.error().to_string();
}

TEST(Image, OfAChain) {
  const auto image = make_image(chain(), {});
  ASSERT_TRUE(image) << image.error().to_string();
  EXPECT_THAT(image->queue_first, ElementsAre(0, 2, 3));
  EXPECT_THAT(image->queue_tasks, ElementsAre(0, 2, 1));
  EXPECT_FALSE(image->just_in_time);
  EXPECT_EQ(image->tasks[1].waits[0], 0);
  EXPECT_EQ(image->tasks[1].signal, 1);
  EXPECT_EQ(image->tasks[1].flags, 0);
  EXPECT_EQ(image->tasks[2].flags, kEndsStep);
}

TEST(Image, RefusesWhatCannotRun) {
  const auto mutated = [](auto change) {
    Plan plan = chain();
    change(plan);
    return refusal(plan);
  };
  EXPECT_EQ(mutated([](Plan&) {}), "accepted");
  EXPECT_THAT(mutated([](Plan& p) { p.workers = 0; }), HasSubstr("0 workers"));
  EXPECT_THAT(mutated([](Plan& p) { p.queues.pop_back(); }), HasSubstr("1 queues for 2 workers"));
  EXPECT_THAT(mutated([](Plan& p) { p.tasks[1].function = 1; }), HasSubstr("task 1: function 1"));
  EXPECT_THAT(mutated([](Plan& p) { p.tasks[1].waits = {2}; }), HasSubstr("task 1: event 2 does not exist"));
  EXPECT_THAT(mutated([](Plan& p) { p.tasks[1].waits = {0, 0, 0, 0, 0}; }), HasSubstr("waits for 5 events"));
  EXPECT_THAT(mutated([](Plan& p) { p.tasks[1].signal = 2; }), HasSubstr("event 2 does not exist"));
  EXPECT_THAT(mutated([](Plan& p) { p.events[0].triggers = 2; }), HasSubstr("event 0: 2 triggers, and 1 tasks"));
  EXPECT_THAT(mutated([](Plan& p) { p.queues[1] = {}; }), HasSubstr("task 1 is ahead of time, and in no queue"));
  EXPECT_THAT(mutated([](Plan& p) { p.queues[0] = {0, 1, 2}; }), HasSubstr("task 1 is in queue 0 and in queue 1"));
  EXPECT_THAT(mutated([](Plan& p) { p.queues[0] = {2, 0}; }), HasSubstr("waits for itself"));
  EXPECT_THAT(mutated([](Plan& p) {
                p.tasks[0].waits = {1}, p.tasks[2].waits = {0}, p.queues = {{0, 2}, {1}};
              }),
              HasSubstr("waits for itself"));
  EXPECT_THAT(mutated([](Plan& p) { p.tasks[2].waits = {0}; }), HasSubstr("task 1 may still run"));
  EXPECT_THAT(mutated([](Plan& p) { p.tasks[1].mode = kJit; }), HasSubstr("no scheduler"));
  EXPECT_THAT(mutated([](Plan& p) { p.tasks[1].mode = kJit, p.schedulers = 1; }),
              HasSubstr("task 1 is just in time; a scheduler"));
  EXPECT_THAT(mutated([](Plan& p) { p.functions[0].scratch_bytes = 300; }), HasSubstr("takes 300 bytes of scratch"));
  EXPECT_THAT(mutated([](Plan& p) { p.functions[0].stage_bytes = 24; }), HasSubstr("expected a multiple of 16"));
  EXPECT_THAT(mutated([](Plan& p) { p.functions[0].stage_bytes = 0; }), HasSubstr("expected a multiple of 16"));
  EXPECT_THAT(mutated([](Plan& p) { p.functions[0].stage_bytes = 16384; }), HasSubstr("the ring has 8192"));
  EXPECT_THAT(mutated([](Plan& p) { p.events[0].hand_off = HandOff::Worker; }), HasSubstr("as a task of one worker"));
  EXPECT_THAT(mutated([](Plan& p) { p.tasks.clear(), p.queues = {{}, {}}; }), HasSubstr("no tasks"));
}

TEST(Image, RefusesShapesThatCannotBe) {
  const auto refused = [](auto change) {
    WorkerShape shape;
    change(shape);
    return refusal(chain(), shape);
  };
  EXPECT_THAT(refused([](WorkerShape& s) { s.ring_bytes = 1000; }), HasSubstr("multiple of 1024"));
  EXPECT_THAT(refused([](WorkerShape& s) { s.ring_stages = 12; }), HasSubstr("power of two"));
  EXPECT_THAT(refused([](WorkerShape& s) { s.ring_stages = 4; }), HasSubstr("at least 4 for each warp"));
  EXPECT_THAT(refused([](WorkerShape& s) { s.warps = 3; }), HasSubstr("3 warps"));
  EXPECT_THAT(refused([](WorkerShape& s) { s.window_bytes = 0; }), HasSubstr("a window of 0"));
  EXPECT_THAT(refused([](WorkerShape& s) { s.scratch_bytes = -1; }), HasSubstr("scratch memory of -1"));
  EXPECT_THAT(refused([](WorkerShape& s) { s.queue_capacity = 3; }), HasSubstr("power of two"));
  EXPECT_THAT(refused([](WorkerShape& s) { s.listed = 0; }), HasSubstr("one entry"));
  EXPECT_THAT(refused([](WorkerShape& s) { s.ahead_bytes = 1000; }), HasSubstr("1000 bytes ahead"));
  EXPECT_THAT(refused([](WorkerShape& s) { s.ahead_bytes = -16; }), HasSubstr("-16 bytes ahead"));
}

TEST(Image, LimitsMustLeaveTimeForTheStart) {
  using std::chrono::seconds;
  EXPECT_TRUE(check_limits(seconds(2), seconds(1)));
  for (const auto& [limit, start] : {std::pair{1, 1}, {1, 2}, {1, 0}, {0, -1}}) {
    const auto checked = check_limits(seconds(limit), seconds(start));
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::InvalidInput);
  }
}

TEST(Image, WhatIsStoredForCopiesIsMarked) {
  Plan plan = chain();
  plan.functions.push_back({"stores", 0, 0, 0, true});
  plan.tasks[1].function = 1;
  const auto image = make_image(plan, {});
  ASSERT_TRUE(image) << image.error().to_string();
  EXPECT_EQ(image->tasks[0].flags, 0);
  EXPECT_EQ(image->tasks[1].flags, kStoresForCopies);
}

/// Tagged words do not say that a task has ended.
TEST(Image, WhatRunsAtTheEndOfAStepIsRefused) {
  Plan plan = chain();
  plan.events[1].hand_off = HandOff::Tagged;
  EXPECT_THAT(refusal(plan), HasSubstr("task 1 may still run when the last one, 2, ends the step"));
  plan.queues = {{}, {0, 1, 2}};
  EXPECT_EQ(refusal(plan), "accepted");
  plan.queues = {{2}, {0, 1}};
  EXPECT_THAT(refusal(plan), HasSubstr("task 1 may still run"));
  // Where a later task of the worker signals a counter, both have ended before.
  plan.tasks.insert(plan.tasks.begin() + 2, Task{0, 0, {}, {}, 2});
  plan.events.push_back({1, 3, 4});
  plan.tasks[3].waits = {1, 2};
  plan.queues = {{3}, {0, 1, 2}};
  EXPECT_EQ(refusal(plan), "accepted");
}

/// The chain with a task just in time in its middle.
TEST(Image, TasksAfterOneJustInTimeAreMarked) {
  Plan plan = chain();
  plan.schedulers = 1;
  plan.tasks[1].mode = kJit;
  plan.queues = {{0, 2}, {}};
  const auto image = make_image(plan, {});
  ASSERT_TRUE(image) << image.error().to_string();
  EXPECT_TRUE(image->just_in_time);
  EXPECT_EQ(image->tasks[0].flags, 0);
  EXPECT_EQ(image->tasks[2].flags, kEndsStep | kAfterJustInTime);
  ASSERT_EQ(image->launches.size(), 1u);
  EXPECT_EQ(image->launches[0].waits[0], 0);
  EXPECT_THAT(image->launch_tasks, ElementsAre(1));

  plan.events[1].hand_off = HandOff::Tagged;
  EXPECT_THAT(refusal(plan), HasSubstr("by tagged words, just in time or for a task"));
  plan.events[1].hand_off = HandOff::Counter;
  plan.events[0].hand_off = HandOff::Tagged;
  EXPECT_THAT(refusal(plan), HasSubstr("by tagged words, just in time"));
}

/// A task that waits for none just in time may still be kept from its end by one: through its queue.
TEST(Image, TheOrderOfAQueueCountsToo) {
  Plan plan;
  plan.workers = 2;
  plan.schedulers = 1;
  plan.functions = {{"f"}};
  plan.operators = {"f"};
  // 0 (just in time) → 1; 2 after 1 in its queue → 3 in another queue; 4 ends.
  plan.events = {{1, 1, 2}, {1, 3, 4}, {2, 4, 5}};
  plan.tasks = {
      {0, 0, {}, {}, 0, kJit}, {0, 0, {}, {0}, 2}, {0, 0, {}, {}, 1}, {0, 0, {}, {1}, 2}, {0, 0, {}, {2}, -1}};
  plan.queues = {{1, 2}, {3, 4}};
  const auto image = make_image(plan, {});
  ASSERT_TRUE(image) << image.error().to_string();
  EXPECT_EQ(image->tasks[2].flags, 0);
  EXPECT_EQ(image->tasks[3].flags, kAfterJustInTime);
}

}  // namespace
}  // namespace strata::megakernel
