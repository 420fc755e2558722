// Plans as chains of kernels: which tasks each kernel has, and which plans are none.
#include "megakernel/runtime/graph_launches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "machine/target.h"
#include "megakernel/runtime/step_kernel.h"

namespace strata::megakernel {
namespace {

/// Six tasks [2, 3] of "wide", an empty task, and "last", which waits for all.
Plan chain() {
  Plan plan;
  plan.name = "chain";
  plan.workers = 4;
  plan.functions = {{"load", 3, 4096, 512, true}, {"end"}};
  plan.operators = {"wide", "last"};
  plan.events = {{.triggers = 6, .first = 6, .end = 7}, {.triggers = 1, .first = 7, .end = 8}};
  for (int64_t n = 0; n < 6; ++n)
    plan.tasks.push_back({.function = 0, .op = 0, .coordinates = {n / 3, n % 3, 0}, .signal = 0});
  plan.tasks.push_back({.waits = {0}, .signal = 1});
  plan.tasks.push_back({.function = 1, .op = 1, .waits = {1}});
  plan.queues = {{0, 4, 6, 7}, {1, 5}, {2}, {3}};
  return plan;
}

Result<std::vector<GraphLaunch>> launches_of(const Plan& plan, const WorkerShape& shape = cuda_shape()) {
  const std::vector<OperatorRecord> operators(plan.operators.size());
  return graph_launches(plan, operators, shape);
}

TEST(GraphLaunches, HaveAllTasksOfAnOperatorAndRoomForTwoBlocks) {
  const auto found = launches_of(chain());
  ASSERT_TRUE(found) << found.error().to_string();
  ASSERT_EQ(found->size(), 2U);
  const GraphLaunch& wide = found->front();
  EXPECT_THAT(wide.grid, testing::ElementsAre(2, 3, 1));
  EXPECT_EQ(wide.tasks, 6);
  EXPECT_EQ(wide.blocks, 4);
  EXPECT_EQ(wide.flags, kStoresForCopies);
  const GraphLaunch& last = found->back();
  EXPECT_EQ(last.function, 1);
  EXPECT_EQ(last.first_task, 7);
  EXPECT_EQ(last.flags, kEndsStep);
  for (const GraphLaunch& launch : *found) EXPECT_LE(kGraphBlocks * (graph_layout(launch, 32).bytes + 1024), 233'472U);
  EXPECT_GE(wide.ring_bytes, cuda_shape().window_bytes);
}

TEST(GraphLaunches, TwoBlocksShareWhatTheMultiprocessorHas) {
  const Plan plan = chain();
  for (const Target& target : targets()) {
    WorkerShape shape = cuda_shape();
    shape.multiprocessor_bytes = target.multiprocessor_shared_memory;
    const auto found = launches_of(plan, shape);
    ASSERT_TRUE(found) << found.error().to_string();
    for (const GraphLaunch& launch : *found) {
      const int64_t bytes = graph_layout(launch, 32).bytes + target.reserved_shared_memory;
      EXPECT_LE(kGraphBlocks * bytes, target.multiprocessor_shared_memory) << target.name;
    }
  }
}

TEST(GraphLaunches, SayWhichPlansAreNone) {
  const auto why = [](const auto& change) {
    Plan plan = chain();
    change(plan);
    const auto found = launches_of(plan);
    return found ? "" : found.error().message;
  };
  EXPECT_EQ(why([](Plan& p) { p.tasks[5].coordinates = {0, 0, 0}; }), "the 6 tasks of operator 'wide' are no grid");
  EXPECT_EQ(why([](Plan& p) { p.tasks[5].coordinates = {1, 3, 0}; }), "the 6 tasks of operator 'wide' are no grid");
  EXPECT_EQ(why([](Plan& p) { p.tasks[2].function = 1; }), "operator 'wide' has tasks of several functions");
  // Through the empty task, and within an operator.
  EXPECT_EQ(why([](Plan& p) {
              for (Task& task : p.tasks) task.op = task.op < 0 ? -1 : 1 - task.op;
            }),
            "operator 'wide' waits for 'last', which is not before it in the plan");
  EXPECT_EQ(why([](Plan& p) { p.tasks[7].op = 0; }),
            "operator 'wide' waits for 'wide', which is not before it in the plan");
  EXPECT_EQ(why([](Plan& p) { p.tasks.pop_back(), p.queues[0].pop_back(); }),
            "the step of plan 'chain' does not end with an operator of one task");
  EXPECT_THAT(why([](Plan& p) { p.functions[0].scratch_bytes = 110'000; }), testing::HasSubstr("leave no room"));
  EXPECT_EQ(why([](Plan& p) { p.functions[0].scratch_bytes = 90'000; }), "");
}

}  // namespace
}  // namespace strata::megakernel
