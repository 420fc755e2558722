#include "megakernel/plan_relations.h"

#include <gtest/gtest.h>

#include <functional>

namespace strata::megakernel {
namespace {

/// Two workers; tasks 0 and 1 signal event 0, for which task 2 waits.
Plan small_plan() {
  Plan plan;
  plan.name = "p";
  plan.workers = 2;
  plan.functions = {{"f"}};
  plan.operators = {"o"};
  plan.events = {{2, 2, 3}};
  plan.tasks = {{0, 0, {}, {}, 0}, {0, 0, {}, {}, 0}, {0, 0, {}, {0}, -1}};
  plan.queues = {{0, 2}, {1}};
  return plan;
}

TEST(PlanRelations, AreWhatThePlanSaysTheOtherWayRound) {
  const PlanRelations relations(small_plan());
  EXPECT_EQ(relations.triggers, (std::vector<std::vector<int>>{{0, 1}}));
  EXPECT_EQ(relations.worker, (std::vector<int>{0, 1, 0}));
  EXPECT_EQ(relations.place, (std::vector<int>{0, 0, 1}));
  EXPECT_EQ(relations.previous, (std::vector<int>{-1, -1, 0}));
}

TEST(PlanRelations, NumbersNameWhatThereIs) {
  ASSERT_TRUE(check_numbers(small_plan())) << check_numbers(small_plan()).error().to_string();
  const auto message = [](const std::function<void(Plan&)>& change) {
    Plan plan = small_plan();
    change(plan);
    const auto checked = check_numbers(plan);
    if (checked) return std::string("fine");
    EXPECT_EQ(checked.error().code, ErrorCode::InvalidInput);
    return checked.error().message;
  };
  EXPECT_EQ(message([](Plan& p) { p.tasks.clear(); }), "plan 'p' has no tasks");
  EXPECT_EQ(message([](Plan& p) { p.workers = 0; }), "plan 'p' has 0 workers; it needs one at least");
  EXPECT_EQ(message([](Plan& p) { p.queues.pop_back(); }), "plan 'p' has 1 queues for 2 workers");
  EXPECT_EQ(message([](Plan& p) { p.tasks[2].waits = {0, 0, 0, 0, 0}; }), "task 2 waits for 5 events, more than 4");
  for (const int wrong : {-2, 1}) {
    const auto says = [&](const char* format) { return fmt::format(fmt::runtime(format), wrong); };
    EXPECT_EQ(message([&](Plan& p) { p.tasks[1].function = wrong; }), says("task 1: function {} does not exist"));
    EXPECT_EQ(message([&](Plan& p) { p.tasks[1].op = wrong; }), says("task 1: operator {} does not exist"));
    EXPECT_EQ(message([&](Plan& p) { p.tasks[1].signal = wrong; }), says("task 1: event {} does not exist"));
    EXPECT_EQ(message([&](Plan& p) { p.tasks[2].waits = {wrong}; }), says("task 2: event {} does not exist"));
  }
  EXPECT_EQ(message([](Plan& p) { p.tasks[2].waits = {-1}; }), "task 2: event -1 does not exist");
  for (const int wrong : {-1, 3})
    EXPECT_EQ(message([&](Plan& p) { p.queues[1] = {wrong}; }), fmt::format("queue 1: task {} does not exist", wrong));
}

}  // namespace
}  // namespace strata::megakernel
