#include "megakernel/runtime/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

namespace strata::megakernel {
namespace {

/// Two workers, a task with loads on each, and an empty one that ends the step.
Plan small_plan() {
  Plan plan;
  plan.name = "a <small> plan";
  plan.workers = 2;
  plan.functions = {{.name = "product", .stages = 4, .stage_bytes = 4096}, {.name = "sum"}};
  plan.operators = {"first", "second"};
  plan.tasks.resize(3);
  plan.tasks[0].function = 0;
  plan.tasks[1].function = 1;
  plan.queues = {{0, 2}, {1}};
  return plan;
}

TracedTask record(int worker, Role role, int task, unsigned epoch, unsigned long long begin, unsigned long long end) {
  return {worker, role, {task, epoch, begin, end}};
}

const std::vector<TracedTask> kRecorded{
    record(0, Role::Compute, 0, 1, 100, 900),       record(1, Role::Compute, 1, 1, 100, 900),
    record(0, Role::Compute, 2, 1, 900, 1000),      record(0, Role::Load, 0, 2, 2000, 6000),
    record(0, Role::Compute, 0, 2, 2000, 10'000),   record(1, Role::Compute, 1, 2, 4000, 8000),
    record(0, Role::Compute, 2, 2, 10'000, 12'000), record(0, Role::Load, 0, 3, 11'000, 13'000),
    record(0, Role::Compute, 0, 3, 12'000, 14'000),
};

TEST(Timeline, IsOfTheLastWholeStep) {
  const Plan plan = small_plan();
  const auto timeline = step_timeline(plan, kRecorded);
  ASSERT_TRUE(timeline) << timeline.error().to_string();
  EXPECT_EQ(timeline->epoch, 2U);
  EXPECT_DOUBLE_EQ(timeline->length, 10);
  EXPECT_EQ(timeline->bars.size(), 4U);
  ASSERT_EQ(timeline->shares.size(), 3U);
  EXPECT_EQ(timeline->shares[0].function, "product");
  EXPECT_DOUBLE_EQ(timeline->shares[0].mean, 8);
  EXPECT_DOUBLE_EQ(timeline->shares[0].share, 0.4);  // of 20 µs
  EXPECT_EQ(timeline->shares[1].function, "sum");
  EXPECT_EQ(timeline->shares[2].function, "empty");
  EXPECT_DOUBLE_EQ(timeline->idle, 1 - 14.0 / 20);
}

TEST(Timeline, SaysWhatDependencesTake) {
  Plan plan = small_plan();
  plan.events = {{.triggers = 1}, {.triggers = 2}};
  plan.tasks[0].signal = plan.tasks[1].signal = 1;
  plan.tasks[2].waits = {1};
  // Worker 0 ends its first task after worker 1 has ended its own: the last task waits for nothing.
  const auto none = step_timeline(plan, kRecorded);
  ASSERT_TRUE(none) << none.error().to_string();
  EXPECT_DOUBLE_EQ(none->dependences, 0);
  // The second task waits for the first one from the step's begin on. Since it ended sooner, its own end is the limit.
  plan.tasks[0].signal = 0;
  plan.tasks[1].waits = {0};
  const auto within = step_timeline(plan, kRecorded);
  ASSERT_TRUE(within) << within.error().to_string();
  EXPECT_DOUBLE_EQ(within->dependences, 6.0 / 20);
  ASSERT_EQ(within->shares[1].function, "sum");
  EXPECT_DOUBLE_EQ(within->shares[1].wait, 6);
  // A worker that was busy loses only what is left: the last task's waits from 8 to 9 µs.
  std::vector<TracedTask> later(kRecorded.begin(), kRecorded.end());
  later[5] = record(1, Role::Compute, 1, 2, 4000, 11'000);
  plan.tasks[1].waits = {};
  const auto after = step_timeline(plan, later);
  ASSERT_TRUE(after) << after.error().to_string();
  EXPECT_DOUBLE_EQ(after->dependences, 1.0 / 20);
}

TEST(Timeline, SpreadsTheBytesOfLoadsOverTheirTime) {
  const auto timeline = step_timeline(small_plan(), kRecorded);
  ASSERT_TRUE(timeline);
  EXPECT_DOUBLE_EQ(timeline->bytes, 4 * 4096);
  const std::vector<double>& rate = timeline->bandwidth;
  const double part = timeline->length / static_cast<double>(rate.size());
  EXPECT_NEAR(std::accumulate(rate.begin(), rate.end(), 0.0) * part * 1000, timeline->bytes, 1);
  EXPECT_NEAR(rate.front(), 4 * 4096 / 4.0 / 1000, 1e-6);  // 4 µs
  EXPECT_EQ(rate.back(), 0);
}

TEST(Timeline, IsAPageWithItsData) {
  const Plan plan = small_plan();
  const auto timeline = step_timeline(plan, kRecorded);
  ASSERT_TRUE(timeline);
  const std::string page = timeline_html(plan, *timeline);
  EXPECT_THAT(page, testing::HasSubstr("<title>a &lt;small&gt; plan · Strata timeline</title>"));
  EXPECT_THAT(page, testing::HasSubstr("A step of 3 tasks takes 10.00 µs."));
  EXPECT_THAT(page, testing::HasSubstr("<li>step 2</li><li>2 workers</li>"));
  EXPECT_THAT(page, testing::HasSubstr("<th scope=\"row\">product</th>"));
  const std::string element = "id=\"timeline-data\">";
  const size_t begin = page.find(element) + element.size();
  const auto data = nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_EQ(data["bars"].size(), 4U);
  EXPECT_EQ(data["functions"], (nlohmann::json{"product", "sum"}));
  EXPECT_EQ(data["bars"][1], (nlohmann::json{0, 2, 0, 0.0, 8.0}));
}

TEST(Timeline, NeedsAWholeStep) {
  const auto timeline = step_timeline(small_plan(), std::span(kRecorded).subspan(7));
  ASSERT_FALSE(timeline);
  EXPECT_EQ(timeline.error().message, "no step of 2 tasks was recorded as a whole");
}

}  // namespace
}  // namespace strata::megakernel
